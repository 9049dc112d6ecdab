"""Every kind of file that a node and an app write, and whose it is.

A file that fits no line of the table fails the suite: a new kind of file must say here what its damage may stop.
"""

import re
from dataclasses import dataclass
from pathlib import Path

TOPIC, JOB, VIEWS, CAPTURE, ALERTS, HOOK, TOKENS, APP, NODE = (
    "topic", "job", "views", "capture", "alerts", "hook", "tokens", "app", "node",
)  # fmt: skip


@dataclass(frozen=True)
class Kind:
    name: str
    pattern: str
    """Of the path below the data directory; (?P<owner>...) names the topic or the job."""
    scope: str
    """What may be kept from working by its damage, and nothing else."""
    harmless: str = ""
    """Why damage need not be reported: the content is made again, and nothing depends on it."""
    unseen: frozenset[str] = frozenset()
    """Damages that cannot be distinguished from an earlier version of the file; `why_unseen` says why."""
    why_unseen: str = ""
    refuses: frozenset[str] = frozenset()
    """Damages for which a node does not start, with a sentence that names the file; `why_refused` says why."""
    why_refused: str = ""
    passing: bool = False
    """Only there at times: the suite does not insist on one."""


PARTITION = r"(?P<owner>[^/]+)-\d+"
COPY = r"(json|copy)"
SQLITE = "SQLite has no checksums: a changed value in a row is found by `headwater verify`"

KINDS = (
    Kind("states of transactions", r"(?P<owner>__transaction_state)-0/\d{20}\.log", TOPIC),
    Kind("users and permissions", r"(?P<owner>__headwater_access)-0/\d{20}\.log", TOPIC),
    Kind("schemas", r"(?P<owner>_schemas)-0/\d{20}\.log", TOPIC),
    Kind("committed offsets", r"(?P<owner>__consumer_offsets)-\d+/\d{20}\.log", TOPIC),
    Kind("segment", rf"{PARTITION}/\d{{20}}\.log", TOPIC),
    Kind("offset index", rf"{PARTITION}/\d{{20}}\.index", TOPIC),
    Kind("time index", rf"{PARTITION}/\d{{20}}\.timeindex", TOPIC),
    Kind("checkpoint", rf"{PARTITION}/checkpoint(\.copy)?", TOPIC),
    Kind("durable witness", rf"{PARTITION}/durable", TOPIC,
         harmless="it only says more than the checkpoint does; a start writes it again"),
    Kind("segment manifest", rf"{PARTITION}/(manifest)\.{COPY}", TOPIC),
    Kind("aborted transactions", rf"{PARTITION}/transactions\.{COPY}", TOPIC),
    Kind("cleaning", rf"{PARTITION}/cleaning\.{COPY}", TOPIC),
    Kind("promised compaction", rf"{PARTITION}/swap\.{COPY}", TOPIC),
    Kind("compacted segment", rf"{PARTITION}/\d{{20}}\.(log|index|timeindex)\.cleaned", TOPIC,
         unseen=frozenset({"deleted"}), why_unseen="it is in the place of its segment, for all a start can know, "
         "and the manifest says what should be there"),
    Kind("streams of events", rf"{PARTITION}/streams\.index", TOPIC,
         harmless="it is made again from the log (tests/log/streams/test_index_file.py)", passing=True),
    Kind("quarantine", rf"{PARTITION}/quarantine\.{COPY}", TOPIC),
    Kind("topic that goes", r"topics/(?P<owner>.+)\.gone", TOPIC),
    Kind("archive that goes", rf"archive-deleting\.{COPY}", NODE),
    Kind("archive manifest", rf"{PARTITION}/archive\.{COPY}", TOPIC),
    Kind("archived segment", r"archive/[^/]+/(?P<owner>[^/]+?)-[0-9a-f-]{36}/\d+/\d{20}\.log", TOPIC),
    Kind("archived index", r"archive/[^/]+/(?P<owner>[^/]+?)-[0-9a-f-]{36}/\d+/\d{20}\.(index|timeindex)", TOPIC),
    Kind("topic", rf"topics/(?P<owner>.+)\.{COPY}", TOPIC),
    Kind("identity", rf"identity\.{COPY}", NODE),
    Kind("clean stop", r"clean-stop", NODE, harmless="without it a start reads more; with it no less is checked"),
    Kind("lock", r"\.lock", NODE, harmless="it is held, not read", refuses=frozenset({"unreadable"}),
         why_refused="without it two nodes could write to one directory"),
    Kind("lock of a part", r".*/\.(lock|control\.lock)", NODE, harmless="it is held, not read"),
    Kind("address", r"node\.json", NODE, harmless="a start writes it again"),
    Kind("token of this machine", r"local\.token", NODE, harmless="a start makes another", passing=True),
    Kind("history of the dashboard", r"history\.json", NODE, harmless="a chart begins again", passing=True),
    Kind("start that failed", r"start-failed\.json", NODE, harmless="that it is there says it, and a start removes it"),
    Kind("barrier", r"flows/barrier\.json", NODE, harmless="it counts for a moment, and nothing depends on it"),
    Kind("Spark's own files", r"flows/(spark\.log|log4j2\.properties|warehouse/.+)", NODE,
         harmless="for people, or written again by each run", passing=True),
    Kind("tokens", rf"tokens\.{COPY}", TOKENS),
    Kind("hook", rf"hooks/[^/]+\.{COPY}", HOOK),
    Kind("alerts", rf"alerts/[^/]+/(definition|state)\.{COPY}", ALERTS),
    Kind("capture", rf"captures/[^/]+/definition\.{COPY}", CAPTURE),
    Kind("capture that never began", r"captures/[^/]+/untouched", CAPTURE,
         harmless="without it the capture is taken to have begun, and is not replaced without --force"),
    Kind("capture status", r"captures/[^/]+/status\.json", CAPTURE, harmless="written every second, for people"),
    Kind("request to a capture", r"captures/[^/]+/requests/[^/]+\.json", CAPTURE, unseen=frozenset({"deleted"}),
         why_unseen="of one that is gone nothing is left to know it by: it is asked for again"),
    Kind("captured values", r"captures/[^/]+/values\.sqlite", CAPTURE,
         unseen=frozenset({"flipped", "older", "deleted", "truncated"}),
         why_unseen="each row has a checksum (tests/capture/test_last_values.py), and a bit outside of all rows means "
         "nothing; an older one, or none, reads on in the topics, which is what it is made from; and what its journal "
         "holds is not read from it"),
    Kind("captured values' journal", r"captures/[^/]+/values\.sqlite-(wal|shm)", CAPTURE,
         harmless="without it the values are older, and read on in the topics", passing=True),
    Kind("app", rf"flows/[^/]+/app\.{COPY}", APP),
    Kind("job", rf"flows/[^/]+/(?P<owner>[^/]+)/(identity|plan|planned|control|health|rebuilt)\.{COPY}", JOB),
    Kind("promised shards", rf"flows/[^/]+/(?P<owner>[^/]+)/resharding\.{COPY}", JOB),
    Kind("promised rebuild", rf"flows/[^/]+/(?P<owner>[^/]+)/rebuild/[^/]+\.{COPY}", JOB),
    Kind("rebuild under way", rf"flows/[^/]+/(?P<owner>[^/]+)/rebuild/[^/]+/(attempt|made_from)\.{COPY}", JOB),
    Kind("batch", rf"flows/[^/]+/(?P<owner>[^/]+)/batches/\d+\.{COPY}", JOB),
    Kind("sink", rf"flows/[^/]+/(?P<owner>[^/]+)/sinks/.+\.{COPY}", JOB),
    Kind("wish", rf"flows/[^/]+/(?P<owner>[^/]+)/stage/wish\.{COPY}", JOB),
    Kind("stage", r"flows/[^/]+/(?P<owner>[^/]+)/stage/.+", JOB, harmless="tasks write it again before it is read",
         passing=True),
    Kind("state manifest", r"flows/[^/]+/(?P<owner>[^/]+)/state/[^/]+/versions/\d+\.json", JOB),
    Kind("state run", r"flows/[^/]+/(?P<owner>[^/]+)/state/[^/]+/runs/.+\.arrow", JOB),
    Kind("views", r"views/[^/]+\.sqlite", VIEWS, unseen=frozenset({"flipped"}), why_unseen=SQLITE),
    Kind("views' journal", r"views/[^/]+\.sqlite-wal", VIEWS, unseen=frozenset({"flipped"}),
         why_unseen="SQLite leaves out what follows a bad frame; the view's position says which batch it holds"),
    Kind("views' shared memory", r"views/[^/]+\.sqlite-shm", VIEWS, harmless="SQLite makes it again"),
    Kind("search index", r"search/[^/]+/[^/]+/(\.managed\.json|[0-9a-f]{32}\..+)", VIEWS),
    Kind("list of a search index", r"search/[^/]+/[^/]+/meta\.json", VIEWS, unseen=frozenset({"flipped"}),
         why_unseen="tantivy writes it without a checksum; segments that it names wrongly are missed"),
    Kind("search lock", r"search/[^/]+/[^/]+/\.tantivy.*\.lock", VIEWS, harmless="it is held, not read"),
)  # fmt: skip


@dataclass(frozen=True)
class Found:
    kind: Kind
    path: str
    """Below the data directory."""
    owner: str


def kind_of(path: str) -> Found | None:
    for kind in KINDS:
        match = re.fullmatch(kind.pattern, path)
        if match:
            return Found(kind, path, match.groupdict().get("owner") or "")
    return None


def files_of(data: Path) -> list[str]:
    return sorted(str(file.relative_to(data)) for file in data.rglob("*") if file.is_file())
