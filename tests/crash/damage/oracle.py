"""What can still be read of a data directory, and what was there before: every sentence is a broken promise.

What is read is right or is refused, with a sentence that names the file; and what does not belong to the damaged file
is as it was.
"""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from headwater.access.acls import AclFilter
from headwater.access.store import AccessStore
from headwater.alerts.definition import Definitions as AlertDefinitions
from headwater.capture.definition import Definitions
from headwater.capture.http.hooks import Hooks
from headwater.cli.data_check import problems
from headwater.cli.log import findings
from headwater.errors import DamagedRange, HeadwaterError
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.commit.job_identity import FILE as IDENTITY
from headwater.flow.deploy.inventory import KeptJob
from headwater.flow.deploy.kept_outputs import PLAN
from headwater.flow.deploy.resharding import NOTE as RESHARDING
from headwater.flow.proof.rebuilt_late import FILE as REBUILT
from headwater.flow.registry.client import local_token
from headwater.flow.run.control import control_of
from headwater.flow.sinks.folders import Note, folder_at
from headwater.flow.source.batch_plan.batch_control import read_wakeup
from headwater.flow.state.inspecting import show
from headwater.flow.state.store import read_manifest
from headwater.log.check import check_log
from headwater.log.log import Log
from headwater.log.storage import LocalStorage
from headwater.node import Node
from headwater.serve.tokens import Tokens
from headwater.views.full_text import FullTextIndex, index_folder
from headwater.views.locations import known_apps
from headwater.views.view import View
from tests.crash.damage.building import APP, ORDERS, VISITS, node_settings
from tests.crash.damage.kinds import ALERTS, CAPTURE, HOOK, JOB, TOKENS, TOPIC, VIEWS, Found
from tests.crash.damage.kinds import APP as APP_SCOPE

JOBS = {ORDERS: ("spent", "totals"), VISITS: ("pages", "")}
Records = dict[tuple[str, int], dict[int, tuple[bytes | None, bytes | None]]]


@dataclass
class Seen:
    """The answers that a reader of some kind got, by its question."""

    records: Records = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)
    """Sentences, by what was asked for."""
    lines: list[str] = field(default_factory=list)
    """What `headwater log check` said before."""


def check_lines(data: Path) -> list[str]:
    """What `headwater log check` says."""
    storage = LocalStorage(data)
    try:
        lines = findings(check_log(storage))
    except HeadwaterError as error:
        lines = [str(error)]
    finally:
        storage.close()
    return [*lines, *problems(data)]


def look(data: Path) -> Seen:
    """Start a node on it, and read everything there is to be read."""
    seen = Seen()
    # Jobs first: a node that starts may put right what a job would have had to see.
    for job, (operator, sink) in JOBS.items():
        for name, read in job_reads(data, job, operator, sink).items():
            _ask(seen, f"{JOB}:{job}:{name}", read)
    for name, read in file_reads(data).items():
        _ask(seen, name, read)
    node = Node(data, node_settings())
    try:
        node.start()
    except HeadwaterError as error:
        seen.refusals["node"] = str(error)
        return seen
    try:
        _look_at_log(seen, node.log)
        _ask(seen, f"{TOPIC}:__consumer_offsets:readers", lambda: _offsets(node.log))
        _ask(seen, f"{TOPIC}:__headwater_access:denied", lambda: _permissions(node.log))
        for path in ("flows", "captures"):
            _ask(seen, f"list of {path}", partial(_names, node, path))
        _ask(seen, f"{TOPIC}:_schemas:versions", lambda: _get(node, "/subjects/orders-value/versions"))
    finally:
        node.stop()
    return seen


def _ask(seen: Seen, name: str, read: Callable[[], Any]) -> None:
    try:
        seen.answers[name] = read()
    except HeadwaterError as error:
        seen.refusals[name] = str(error)


def _offsets(log: Log) -> Any:
    return {
        f"{where.topic}/{where.partition}": said.offset for where, said in log.group_offsets.fetch("readers").items()
    }


def _permissions(log: Log) -> Any:
    """Who is in doubt lets nobody in."""
    store = AccessStore(log)
    store.load()
    if store.doubt:
        raise HeadwaterError(store.doubt)
    return sorted(map(str, store.acls(AclFilter()))), str(store.credentials("eve"))


def _names(node: Node, path: str) -> list[str]:
    return sorted(one["name"] for one in _get(node, f"/{path}"))


def _get(node: Node, path: str) -> Any:
    try:
        with urlopen(Request(node.http_url + path, headers=local_token(str(node.data)))) as answer:
            return json.loads(answer.read())
    except HTTPError as error:
        said = error.read().decode()
        if error.code < 500:
            return f"{error.code} {said}"
        raise HeadwaterError(said) from None


# -- the log -----------------------------------------------------------------------------------------------------------


def _look_at_log(seen: Seen, log: Log) -> None:
    for topic in log.topics():
        for number in range(topic.partitions):
            found = seen.records.setdefault((topic.name, number), {})
            try:
                _read_partition(seen, log, topic.name, number, found)
            except HeadwaterError as error:
                seen.refusals[f"{TOPIC}:{topic.name}:{number}"] = str(error)
            for offset in (one for one in found if one % 7 == 3):  # by the index, not one after the other
                at = partial(_at, log, topic.name, number, offset)
                _ask(seen, f"{TOPIC}:{topic.name}:{number} at {offset}", at)


def _at(log: Log, topic: str, number: int, offset: int) -> list[int]:
    return [record.offset for record in log.read(topic, number, offset=offset, limit=1)]


def _read_partition(seen: Seen, log: Log, topic: str, number: int, found: dict[int, Any]) -> None:
    """All there is, as a consumer reads that steps over what is damaged."""
    offset = log.partition(topic, number).start_offset
    while True:
        try:
            for record in log.read(topic, number, offset=offset):
                found[record.offset] = record.key, record.value
            return
        except DamagedRange as damage:
            seen.refusals[f"{TOPIC}:{topic}:{number}:{damage.first}"] = str(damage)
            offset = damage.end


# -- jobs, views, and files of other parts -----------------------------------------------------------------------------


def job_reads(data: Path, job: str, operator: str, sink: str) -> dict[str, Callable[[], Any]]:
    """What a job reads when it starts."""
    path = data / "flows" / APP / job
    folder = JobFolder(path)

    def checkpoint() -> Any:
        folder.last_planned()
        last = folder.last_finished()
        assert last is not None
        return last.to_json(), folder.planned(last.batch)

    def state() -> Any:
        last = folder.last_finished()
        assert last is not None
        (kept,) = [one for one in KeptJob(APP, job, path).operators() if one.name == operator]
        read_manifest(kept.store.files, last.batch)
        return sorted(map(str, show(kept.store.files, {}, limit=1000).to_pylist()))

    reads: dict[str, Callable[[], Any]] = {
        "identity": lambda: {**(folder.read(IDENTITY) or {}), "place": ""},
        "plan": lambda: folder.read(PLAN),
        "checkpoint": checkpoint,
        "control": lambda: control_of(path),
        "resharding": lambda: folder.read(RESHARDING),
        "rebuild": lambda: folder.read("rebuild/spent.json"),
        "under way": lambda: [folder.read(f"rebuild/totals/{name}.json") for name in ("made_from", "attempt")],
        "rebuilt": lambda: folder.read(REBUILT),
        "wish": lambda: read_wakeup(folder.stage),
        "state": state,
    }
    sinks = [f"{APP}.accounts", f"{APP}.{job}.late", f"{APP}.{job}.poisoned", *([sink] if sink else [])]
    notes = {f"sink {one}": Note(folder_at(str(folder.sinks)), f"{one}.json").read for one in sinks}
    return {**reads, **notes}


def file_reads(data: Path) -> dict[str, Callable[[], Any]]:
    def rows(view: str) -> Any:
        with View.open(data, APP, view) as opened:
            return sorted(map(str, opened.rows()))

    def search() -> Any:
        index = FullTextIndex(index_folder(data, APP, "pages"))
        try:
            return sorted(str(hit.key) for hit in index.search("p1", 10))
        finally:
            index.close()

    return {
        f"{TOKENS}:names": lambda: [one.name for one in Tokens(data).all()],
        f"{TOKENS}:unknown": lambda: Tokens(data).find("nobody's"),
        f"{HOOK}:payments": lambda: Hooks(data).get("payments"),
        f"{HOOK}:names": lambda: Hooks(data).names(),
        f"{ALERTS}:{APP}": lambda: AlertDefinitions(data).get(APP),
        f"{ALERTS}:apps": lambda: AlertDefinitions(data).apps(),
        f"{ALERTS}:state": lambda: AlertDefinitions(data).state(APP),
        f"{CAPTURE}:users": lambda: Definitions(data).get("users"),
        f"{CAPTURE}:names": lambda: Definitions(data).names(),
        f"{APP_SCOPE}:known": lambda: {name: said.views for name, said in known_apps(data).items()},
        f"{VIEWS}:spent": lambda: rows("spent"),
        f"{VIEWS}:pages": lambda: rows("pages"),
        f"{VIEWS}:search": search,
    }


# -- the verdict -------------------------------------------------------------------------------------------------------


def broken_promises_in(
    truth: Seen, seen: Seen, lines: list[str], damaged: Found, damage: str, *, like_a_crash: bool = False
) -> list[str]:
    """`like_a_crash`: a crash between the two renames of a write leaves the same, and nothing is lost by it."""
    lines = [line for line in lines if line not in truth.lines]
    found = [*_wrong_answers(truth, seen, lines, damaged, damage), *_wrong_records(truth, seen, lines, damaged)]
    if "node" in seen.refusals and not (damage in damaged.kind.refuses and damaged.path in seen.refusals["node"]):
        found.append(f"the node does not start: {seen.refusals['node']}")
    if (
        not damaged.kind.harmless
        and damage not in damaged.kind.unseen
        and not named(damaged, lines)
        and not like_a_crash
    ):
        found.append(f"log check does not name it; it says {lines or 'that everything is sound'}")
    return found


def _own(damaged: Found, name: str) -> bool:
    """Does this belong to what the damaged file may stop?"""
    scope, _, rest = name.partition(":")
    if damaged.kind.scope == APP_SCOPE:
        return scope == APP_SCOPE
    return scope == damaged.kind.scope and (not damaged.owner or rest.split(":")[0] == damaged.owner)


def _wrong_answers(truth: Seen, seen: Seen, lines: list[str], damaged: Found, damage: str) -> Iterator[str]:
    for name, right in truth.answers.items():
        own = _own(damaged, name)
        if name in seen.answers:
            # A view that is older says so by its position, and is not written to: that is not silent.
            reported = own and damaged.kind.scope == VIEWS and named(damaged, lines)
            unseen = reported or (own and damage in damaged.kind.unseen)
            if seen.answers[name] != right and not unseen:
                yield f"{name} is silently wrong: {seen.answers[name]!r:.300}, and was {right!r:.300}"
        elif name in seen.refusals and not own and "node" not in seen.refusals:
            yield f"{name} is refused because of another's file: {seen.refusals[name]}"


def _wrong_records(truth: Seen, seen: Seen, lines: list[str], damaged: Found) -> Iterator[str]:
    if "node" in seen.refusals:
        return
    for topic_partition, right in truth.records.items():
        served = seen.records.get(topic_partition, {})
        topic, number = topic_partition
        wrong = [offset for offset, said in served.items() if right.get(offset) != said]
        if wrong:
            yield f"{topic}/{number} serves other records than were written, at offsets {wrong[:5]}"
        missing = sorted(right.keys() - served.keys())
        own = damaged.kind.scope == TOPIC and damaged.owner == topic
        if missing and not own:
            yield f"{topic}/{number} lacks offsets {missing[:5]}, and the damage is elsewhere"
        elif missing and not named(damaged, lines):
            yield f"{topic}/{number} lacks offsets {missing[:5]}, and nothing says so"


def named(damaged: Found, lines: list[str]) -> bool:
    """By its path; a file of a partition also by the offsets it holds, a journal of SQLite by the file it is of."""
    path = Path(damaged.path.removesuffix("-wal"))
    topic, _, number = path.parent.name.rpartition("-")
    partition = f"{topic}/{number}: " if damaged.kind.scope == TOPIC and number.isdigit() else damaged.path
    if damaged.kind.name in ("search index", "list of a search index"):
        partition = str(path.parent)  # what is to be done about any of its files is the same
    if damaged.kind.name == "topic that goes":
        partition = f'topic "{damaged.owner}" is offline'  # without the file it is one whose file is missing
    return any(f"{path.parent.name}/{path.name}" in line or partition in line for line in lines)


@contextmanager
def no_traces() -> Iterator[list[str]]:
    """What is logged with a stack trace: no user should have to read one."""
    traces: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info:
                traces.append(f"{record.name}: {record.getMessage()}: {record.exc_info[1]!r}")

    handler, logger = Handler(), logging.getLogger("headwater")
    logger.addHandler(handler)
    try:
        yield traces
    finally:
        logger.removeHandler(handler)
