"""Late rows as records that explain themselves: their time, the watermark, and the window they were late for."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headwater.flow.commit.report_records import NO_RECORDS, records
from headwater.flow.declare.topology.nodes import (
    AsOfJoin,
    Dedupe,
    IntervalJoin,
    Join,
    LatestJoin,
    Node,
    Recognized,
    Source,
    SourceVersions,
    Windowed,
)
from headwater.flow.formats.schema import quoted
from headwater.flow.late.late_rows import LATE_END, LATE_START, late_events, late_for_join, late_frame
from headwater.flow.late.late_text import exact, with_row
from headwater.flow.operate.deduplicator import LATE
from headwater.flow.operate.job_operators import AnyOperator, Operators
from headwater.flow.operate.join_operators import StreamJoinOperator
from headwater.flow.operate.patterns.pattern_operator import PatternOperator
from headwater.flow.operate.reports import ShardReport
from headwater.flow.operators.patterns.search import FAILURES
from headwater.flow.operators.patterns.spec import WHY
from headwater.flow.plan.batch_context import BatchContext
from headwater.flow.plan.delays import AT_ONCE, arriving
from headwater.flow.plan.lateness import Times
from headwater.flow.plan.timestamps import EPOCH, iso
from headwater.flow.plan.watermarks import is_dated
from headwater.flow.rows.evaluation import Evaluation
from headwater.flow.rows.row_steps import visible

NO_ROW = "the table has no row for "
"""Begins the reason of an event that had to have a partner, and is not late."""


NO_MATCH = "a match that would begin with this row cannot be had for "
"""Begins the reason of a row whose attempt failed."""


def late_records(
    evaluation: Evaluation, operators: Operators, context: BatchContext, reports: Sequence[ShardReport]
) -> pa.Table:
    """Of all operators of a batch. Rows are read a second time, only for operators that had any."""
    tables, had = [], {one.operator for one in reports if one.late}
    for node, name in operators.names.items():
        frame = _late_frame(node, evaluation, operators.at(node, context), context.times) if name in had else None
        if frame is not None:
            tables.append(_described(frame.toArrow(), node, name, context))
        if any(one.missing for one in reports if one.operator == name):
            rows = _unmatched(evaluation, operators.declared[node], node).toArrow()
            tables.append(_described(rows, node, name, context, unmatched=True))
    return pa.concat_tables(tables) if tables else NO_RECORDS


def _late_frame(node: Node, evaluation: Evaluation, operator: AnyOperator, times: Times) -> DataFrame | None:
    if isinstance(node, IntervalJoin | AsOfJoin):
        assert isinstance(operator, StreamJoinOperator)
        return late_for_join(node, operator, evaluation.given(node, 0), evaluation.given(node, 1))
    if isinstance(node, Recognized):
        assert isinstance(operator, PatternOperator)
        return late_events(evaluation.given(node), operator.late_below_us)
    if isinstance(node, Windowed):
        return late_frame(node, evaluation.given(node), times.reached(node)[1])
    if isinstance(node, Dedupe):
        late = evaluation.changes(node).where(f.col(LATE))
        row = f.to_json(f.struct(*(f.col(quoted(name)) for name in visible(late))), {"ignoreNullFields": "false"})
        nothing = f.lit(None).cast("long")
        return late.select("_at.*", row.alias(LATE), nothing.alias(LATE_START), nothing.alias(LATE_END))
    return None


def _unmatched(evaluation: Evaluation, operator: AnyOperator, node: Node) -> DataFrame:
    """Rows that had to have a partner in a join, and have none."""
    assert isinstance(operator, StreamJoinOperator | PatternOperator)
    pairing = operator.pairing if isinstance(operator, PatternOperator) else operator.work.pairing
    rows, names = evaluation.unmatched(node), pairing.columns.names
    row = f.to_json(f.struct(*(f.col(quoted(name)) for name in names)), {"ignoreNullFields": "false"})
    nothing = f.lit(None).cast("long")
    return rows.select("_at.*", row.alias(LATE), nothing.alias(LATE_START), nothing.alias(LATE_END))


def _described(
    rows: pa.Table, node: Node, operator: str, context: BatchContext, *, unmatched: bool = False
) -> pa.Table:
    values, stamps, times = [], [], context.times
    for row in rows.to_pylist():
        said = {
            **(_why_unmatched(row, node, times) if unmatched else _why(row, node, times)), "operator": operator,
            "stream": times.sources[row["source"]].name,
            "topic": times.sources[row["source"]].topic, "partition": row["partition"], "offset": row["offset"],
            "batch": context.batch,
        }  # fmt: skip
        values.append(with_row(said, row[LATE]))
        stamps.append(_microseconds(row) // 1000)
    return records([None] * len(values), values, stamps)


def _why(row: dict[str, Any], node: Node, times: Times) -> dict[str, Any]:
    time_us = _microseconds(row)
    if isinstance(node, Windowed):
        reached_us = _reached_us(node, times)
        span = None if row[LATE_START] is None else {"start": iso(row[LATE_START]), "end": iso(row[LATE_END])}
        return {
            "reason": _reason(node, reached_us, row[LATE_END], time_us),
            "time": iso(time_us), "watermark": iso(reached_us), "window": span,
        }  # fmt: skip
    if isinstance(node, Recognized):
        reached_us = _reached_us(node, times)
        kept = f", and corrections for {node.spec.horizon_us / 1e6:,.0f} s," if node.spec.horizon_us else ""
        reason = (
            f"its time{kept} lies {(reached_us - time_us) / 1e6:,.3f} s behind the watermark, "
            "and matches that it could change are decided"
        )
        return {"reason": reason, "time": iso(time_us), "watermark": iso(reached_us), "window": None}
    if isinstance(node, Join):
        reached_us = _emitted_us(node, times, times.sources[row["source"]])
        return {
            "reason": _join_reason(node, times.sources[row["source"]], reached_us, time_us),
            "time": iso(time_us), "watermark": iso(reached_us), "window": None,
        }  # fmt: skip
    if arriving(node) != AT_ONCE:
        reached_us = _reached_us(node, times)
        reason = f"its time lies {(reached_us - time_us) / 1e6:,.3f} s behind the watermark downstream of the join"
        return {"reason": reason, "time": iso(time_us), "watermark": iso(reached_us), "window": None}
    passed_us = times.passed_us(row["source"], row["partition"])
    reason = times.reason(row["source"], row["partition"], time_us)
    return {"reason": reason, "time": iso(time_us), "watermark": iso(passed_us), "window": None}


def _why_unmatched(row: dict[str, Any], node: Node, times: Times) -> dict[str, Any]:
    if isinstance(node, Recognized):
        return _why_failed(row, node, times)
    assert isinstance(node, Join)
    found = json.loads(row[LATE], parse_float=exact)
    key = ", ".join(f"{name} = {json.dumps(found.get(name), ensure_ascii=False)}" for name, _ in node.on)
    waited = f" within {node.wait_us / 1e6:,.0f} s" if isinstance(node, LatestJoin) and node.wait_us else ""
    held = " at its time" if isinstance(node, AsOfJoin) else waited
    reached_us = _reached_us(node, times)
    reason = f"{NO_ROW}{key}{held}"
    return {
        "reason": reason,
        "alone": True,
        "time": iso(_microseconds(row)),
        "watermark": iso(reached_us),
        "window": None,
    }


def _why_failed(row: dict[str, Any], node: Recognized, times: Times) -> dict[str, Any]:
    """Of a row that a match could have begun with."""
    found = json.loads(row[LATE], parse_float=exact)
    key = ", ".join(f"{name} = {json.dumps(found.get(name), ensure_ascii=False)}" for name in node.spec.by)
    return {
        "reason": f"{NO_MATCH}{key}: {FAILURES[found[WHY]]}",
        "alone": True,
        "time": iso(_microseconds(row)),
        "watermark": iso(_reached_us(node, times)),
        "window": None,
    }


def _reached_us(node: Node, times: Times) -> int:
    return times.reached(node)[1] or 0


def _emitted_us(node: Join, times: Times, source: Source) -> int:
    """The watermark up to which events were emitted that a row was late for."""
    return (
        (times.reached(node)[0] or 0) if isinstance(node, AsOfJoin) and is_dated(source) else _reached_us(node, times)
    )


def _join_reason(node: Join, source: Source, reached_us: int, time_us: int) -> str:
    behind = f"{(reached_us - time_us) / 1e6:,.3f} s behind the watermark"
    if not isinstance(node, AsOfJoin):
        return f"its time lies {behind}, and what it could be joined with is no longer kept"
    if is_dated(source):
        till = iso(reached_us - node.horizon_us)
        return f"it holds from a time {behind}: events before {till} that want it were emitted without it"
    if isinstance(source, SourceVersions):
        return f"it holds from a time {behind}, and changes nothing that was emitted before {iso(reached_us)}"
    return f"its time lies {behind}, and versions are kept for {node.versions.versions_us / 1e6:,.0f} s"


def _reason(node: Windowed, reached_us: int, end_us: int | None, time_us: int) -> str:
    """For a person."""
    kept = f", and corrections for {node.emission.horizon_us / 1e6:,.0f} s," if node.emission.horizon_us else ""
    if end_us is None:
        return f"its time{kept} lies {(reached_us - time_us) / 1e6:,.3f} s behind the watermark"
    return f"the window that ended at {iso(end_us)}{kept} was over when the watermark came to {iso(reached_us)}"


def _microseconds(row: dict[str, Any]) -> int:
    time: datetime = row["time"]
    return (time - EPOCH) // timedelta(microseconds=1)
