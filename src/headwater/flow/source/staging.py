"""What a read task leaves for the driver: counts of its range, and the rows that did not decode.

    STAGE/orders-0-1000-2000.json              {"rows": 1000, "poisoned": 1, "bytes": …, …}
    STAGE/orders@1-0-1000-2000.json            the same, as a second stream over the topic sees it
    STAGE/orders-0-1000-2000.poisoned.arrow    the poisoned ones, with their reasons; only if there are any

Each is written under another name and renamed. A task that runs again writes the same again.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from headwater.errors import UnavailableError
from headwater.flow.source.record_batches.records import HEADERS_TYPE
from headwater.flow.source.splitting import Range
from headwater.record import TopicPartition

POISONED_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", "UTC")),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS_TYPE),
        pa.field("reason", pa.string()),
    ]
)
_RANGE = r"(?P<topic>.+)-(?P<partition>\d+)-(?P<first>\d+)-(?P<end>\d+)"
_NAME = re.compile(_RANGE + r"\.json")
_UNFINISHED = re.compile(_RANGE + r"\.(json|poisoned\.arrow)\.[^.]+\.new")


@dataclass
class Counts:
    """Of one range of one partition."""

    rows: int = 0
    """Records there were, poisoned ones included."""
    poisoned: int = 0
    bytes: int = 0
    """Of keys and values."""
    event_time_min_us: int | None = None
    event_time_max_us: int | None = None
    timestamp_max_ms: int | None = None
    lost: int = 0
    """Offsets that were removed before they were read."""
    punctuation: int = 0
    """Records that only say how far time has come (punctuation.py); they are no rows."""
    no_more_before_us: int | None = None
    """What they say of the whole partition."""
    producers: dict[str, list[int | None]] = field(default_factory=dict)
    """Newest event time, newest timestamp of a record in milliseconds, and what its punctuation says."""


@dataclass(frozen=True)
class Staged:
    range: Range
    counts: Counts
    poisoned: pa.Table = field(default_factory=lambda: POISONED_SCHEMA.empty_table())


def staged_name(topic: str, partition: int) -> str:
    """What the streams over one topic leave is distinguished by their index among them.

    >>> staged_name("orders", 0), staged_name("orders", 1)
    ('orders', 'orders@1')
    """
    return topic if partition == 0 else f"{topic}@{partition}"


def name_of(one: Range) -> str:
    return f"{one.topic}-{one.partition}-{one.first}-{one.end}"


def write_stage(stage: Path, one: Range, counts: Counts, poisoned: Sequence[pa.RecordBatch]) -> None:
    stage.mkdir(parents=True, exist_ok=True)
    arrow = stage / f"{name_of(one)}.poisoned.arrow"
    if poisoned:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, POISONED_SCHEMA) as writer:
            for batch in poisoned:
                writer.write_batch(batch)
        _replace(arrow, sink.getvalue())
    else:
        arrow.unlink(missing_ok=True)
    # Last: a reader that finds it finds the other too.
    _replace(stage / f"{name_of(one)}.json", json.dumps(asdict(counts), sort_keys=True).encode())


def read_stage(stage: Path, ranges: Iterable[Range]) -> list[Staged]:
    """What the tasks left about these ranges, which may have been cut into pieces; in order, without gap or overlap.

    UnavailableError if a piece is missing. If a range was read more than once, cut differently, the newest that fit
    together count.
    """
    listed = _listed(stage)
    found = []
    for one in ranges:
        pieces = _tiling(one, listed.get(one.place, []))
        if pieces is None:
            raise UnavailableError(f"{stage} does not hold what was read of {name_of(one)}")
        found += [_read(stage, piece) for piece in pieces]
    return found


def clear_stage(stage: Path, read_until: Mapping[TopicPartition, int]) -> int:
    """Remove what is about ranges that end at or before these offsets; how many files went."""
    removed = 0
    for partition, pieces in _listed(stage).items():
        for piece in pieces:
            if piece.end <= read_until.get(partition, -1):
                (stage / f"{name_of(piece)}.json").unlink(missing_ok=True)
                (stage / f"{name_of(piece)}.poisoned.arrow").unlink(missing_ok=True)
                removed += 1
    return removed + _remove_unfinished(stage, read_until)


def _remove_unfinished(stage: Path, read_until: Mapping[TopicPartition, int]) -> int:
    """What attempts that were ended while they wrote have left about such ranges."""
    removed = 0
    for path in stage.glob("*.new"):
        named = _UNFINISHED.fullmatch(path.name)
        if named and int(named["end"]) <= read_until.get(TopicPartition(named["topic"], int(named["partition"])), -1):
            path.unlink(missing_ok=True)
            removed += 1
    return removed


def _listed(stage: Path) -> dict[TopicPartition, list[Range]]:
    """The pieces there are, the newest first."""
    try:
        entries = sorted(os.scandir(stage), key=lambda entry: (-entry.stat().st_mtime_ns, entry.name))
    except FileNotFoundError:
        return {}
    listed: dict[TopicPartition, list[Range]] = {}
    for entry in entries:
        named = _NAME.fullmatch(entry.name)
        if named is not None:
            piece = Range(named["topic"], *(int(named[part]) for part in ("partition", "first", "end")))
            listed.setdefault(piece.place, []).append(piece)
    return listed


def _tiling(one: Range, pieces: Sequence[Range]) -> list[Range] | None:
    """Pieces that cover the range exactly; of several at one partition the first in the list that leads to the end."""
    by_first: dict[int, list[Range]] = {}
    for piece in pieces:
        if one.first <= piece.first and piece.first < piece.end <= one.end:
            by_first.setdefault(piece.first, []).append(piece)
    path: list[Range] = []
    choices = [iter(by_first.get(one.first, []))]
    hopeless: set[int] = set()
    while choices:
        if path and path[-1].end == one.end:
            return path
        chosen = next(choices[-1], None)
        if chosen is None:
            choices.pop()
            if path:
                hopeless.add(path.pop().end)
        elif chosen.end not in hopeless:
            path.append(chosen)
            choices.append(iter(by_first.get(chosen.end, [])))
    return path if one.rows == 0 else None


def _read(stage: Path, piece: Range) -> Staged:
    counts = Counts(**json.loads((stage / f"{name_of(piece)}.json").read_bytes()))
    if not counts.poisoned:
        return Staged(piece, counts)
    arrow = stage / f"{name_of(piece)}.poisoned.arrow"
    if not arrow.exists():  # poisoned rows were only counted
        return Staged(piece, counts)
    with pa.OSFile(str(arrow)) as file, pa.ipc.open_file(file) as reader:
        return Staged(piece, counts, reader.read_all())


def _replace(path: Path, content: bytes | pa.Buffer) -> None:
    # Another attempt of the same task may write the same file now, from this process or from another machine.
    fresh = path.with_name(f"{path.name}.{uuid4().hex}.new")
    with open(fresh, "wb") as file:
        file.write(content)
        file.flush()
    fresh.replace(path)
