"""Records that a test feeds: rows of tables as their captures write them, and the end of time for a flush (pure)."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.topology.graph import Job
from headwater.flow.declare.topology.nodes import (
    CHANGELOGS,
    Join,
    Node,
    Recognized,
    Source,
    SourceStream,
    Windowed,
    source_id,
    walk,
)
from headwater.flow.plan.watermarks import Clocks
from headwater.flow.source.times.punctuation import HEADER
from headwater.record import Record


def table_records(
    source: Source | None, name: str, rows: Iterable[Mapping[str, Any]], deleted: Iterable[Any], time_ms: int
) -> list[Record]:
    """Rows as they are after a change, then deletions, each under the key of its row."""
    if source is None or not isinstance(source, CHANGELOGS):
        raise InvalidDeclaration(f"{name} is no table of the app", "Feed the rows of a stream with feed(topic, rows).")
    enveloped = source.format == "debezium"
    made = []
    for row in rows:
        if missing := [one for one in source.key if one not in row]:
            raise InvalidDeclaration(f"a row of {name} has no {missing[0]}, which is its key")
        value = {"before": None, "after": row, "op": "c", "ts_ms": time_ms} if enveloped else row
        made.append(Record(_json(value), key=_key(source.key, row), timestamp_ms=time_ms))
    for one in deleted:
        row = one if isinstance(one, Mapping) else dict(zip(source.key, [one], strict=True))
        made.append(Record(None, key=_key(source.key, row), timestamp_ms=time_ms))
    return made


def _key(names: tuple[str, ...], row: Mapping[str, Any]) -> bytes:
    return _json({name: row[name] for name in names})


def _json(value: object) -> bytes:
    return json.dumps(value, default=str).encode()


def no_more_before(until_us: int) -> Record:
    """Says for its partition that nothing more comes from before a time. A record of no time is believed, however far
    that lies ahead."""
    return Record(None, headers=((HEADER, str(-(-until_us // 1000)).encode()),), timestamp_ms=0)


def flush_times(jobs: Iterable[Job], clocks: Callable[[Job], Clocks]) -> dict[str, int]:
    """Up to when to promise that nothing more comes, for each topic of events: past all windows that the last rows can
    lie in."""
    found: dict[str, int] = {}
    tables = {source.topic for job in jobs for source in job.sources if isinstance(source, CHANGELOGS)}
    for job in jobs:
        newest = clocks(job).newest_us
        known = [us for parts in newest.values() for us in parts.values()]
        if not known:
            continue
        until_us = max(known) + _longest_us(job) + 1000
        for source in job.sources:
            if isinstance(source, SourceStream) and source.topic not in tables and source_id(source) in newest:
                found[source.topic] = max(found.get(source.topic, until_us), until_us)
    return found


def _longest_us(job: Job) -> int:
    nodes = {node for planned in job.outputs for node in walk(planned.node)}
    return sum(map(_length_us, nodes))


def _length_us(node: Node) -> int:
    """How long a row can be waited for, or kept, by an operator."""
    if isinstance(node, Join):
        return sum(abs(getattr(node, name, 0) or 0) for name in ("wait_us", "horizon_us", "low_us", "high_us"))
    if isinstance(node, Recognized):
        return (node.spec.within_us or 0) + node.spec.horizon_us
    if not isinstance(node, Windowed) or node.window.expires:  # keys that end are no results to wait for
        return 0
    return node.window.longest_us + node.emission.horizon_us
