"""Which change of code is a change of meaning, and what can be done about it."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.declare.topology.graph import plan
from headwater.flow.declare.topology.nodes import walk
from headwater.flow.deploy.code_changes import (
    KEEP,
    MIGRATE,
    NEW,
    REBUILD,
    REMOVED,
    Verdict,
    compare,
    save,
    save_one,
    worded,
)
from headwater.flow.deploy.descriptions import Described, descriptions
from headwater.flow.operate.reports import Operator
from headwater.flow.operators.aggregation.aggregates import Aggregate
from headwater.flow.plan.resolution import Resolved

KEY, TOTALS = pa.schema([("currency", pa.string())]), pa.schema([("currency", pa.string()), ("total", pa.int64())])


def described(
    condition: str = "amount > 1",
    schema: str = "id string, amount long, currency string",
    view: str = "totals",
    total: str = "total",
    behind: str = "",
) -> Described:
    app = hw.App("shop")
    orders = app.stream("orders", schema)

    def body() -> Any:
        table = orders.where(condition).by("currency").agg(f"sum(amount) as {total}")
        return table.where(behind) if behind else table

    app.view(key="currency", name=view)(body)
    (job,) = plan(app)
    (node,) = job.operators
    operator = Operator(view, KEY, (Aggregate("sum", total, "amount", pa.int64()),))
    assert node in walk(job.outputs[0].node)
    return descriptions(job, {view: Resolved(("currency",), TOTALS, {node: operator})})


def verdicts(tmp_path: Path, before: Described, now: Described) -> dict[str, str]:
    return {one.output: one.what for one in compared(tmp_path, before, now)}


def compared(tmp_path: Path, before: Described, now: Described) -> list[Verdict]:
    folder = JobFolder(tmp_path / "job")
    save(folder, before)
    return compare(folder, now)


def test_the_same_code_elsewhere_in_a_file_is_kept(tmp_path: Path) -> None:
    assert verdicts(tmp_path, described(), described()) == {"totals": KEEP}


def test_a_column_of_the_source_that_is_not_used_changes_nothing(tmp_path: Path) -> None:
    wider = described(schema="id string, amount long, currency string, note string")
    assert verdicts(tmp_path, described(), wider) == {"totals": KEEP}


def test_another_condition_is_a_change_and_the_sentence_shows_both(tmp_path: Path) -> None:
    (verdict,) = compared(tmp_path, described(), described("amount > 2"))
    assert verdict.what == REBUILD
    assert verdict.why == 'where condition was "amount > 1" and is "amount > 2"'


def test_what_changes_behind_the_operator_can_be_made_from_its_state(tmp_path: Path) -> None:
    (verdict,) = compared(tmp_path, described(), described(behind="total > 5"))
    assert (verdict.what, verdict.rewrite) == (MIGRATE, True)
    assert not any(one.needed for one in verdict.carries)


def test_an_aggregate_under_another_name_is_still_the_same(tmp_path: Path) -> None:
    (verdict,) = compared(tmp_path, described(), described(total="revenue"))
    (carry,) = verdict.carries
    assert (verdict.what, verdict.why) == (MIGRATE, "rewritten from its state: revenue was total")
    assert carry.columns == {"currency": "currency", "revenue__sum": "total__sum"}


def test_a_view_with_another_name_is_new_and_finds_the_state_of_the_old_one(tmp_path: Path) -> None:
    new, gone = compared(tmp_path, described(), described(view="sums"))
    assert (new.output, new.what, new.why) == ("sums", NEW, "it is made from the state of totals")
    assert (gone.output, gone.what) == ("totals", REMOVED)


def test_a_job_that_never_ran_has_nothing_to_compare_with(tmp_path: Path) -> None:
    assert [one.what for one in compare(JobFolder(tmp_path / "job"), described())] == [KEEP]


def test_one_output_can_become_another_while_the_others_stay(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path / "job")
    old, other, new = described(), described(view="sums"), described("amount > 2")
    save(folder, Described({**old.outputs, **other.outputs}, {**old.operators, **other.operators}))
    save_one(folder, "totals", new.outputs["totals"], new.operators)
    both = Described({**new.outputs, **other.outputs}, {**new.operators, **other.operators}, {**new.uses, **other.uses})
    assert [one.what for one in compare(folder, both)] == [KEEP, KEEP]


@pytest.mark.parametrize(
    "what, value, said",
    [
        (
            "windowed window",
            "Hopping(size_us=600000000, slide_us=300000000, offset_us=0)",
            "hopping 10 minutes every 5 m",
        ),
        ("windowed window", "Calendar(unit='day', zone='Europe/Berlin', offset_us=0)", "calendar day in Europe/Berlin"),
        ("windowed window", "Sliding(size_us=300000000, on_change=True)", "sliding 5 minutes, at every change"),
        ("windowed window", "Session(gap_us=3600000000)", "session with gaps of 1 hour"),
        ("windowed window", "Count(rows=3)", "every 3 rows"),
        ("dedupe within_us", 900_000_000, "15 minutes"),
        ("newest limit", 3, "3"),
        ("where condition", "amount > 1", '"amount > 1"'),
    ],
)
def test_windows_and_times_are_told_as_people_write_them(what: str, value: object, said: str) -> None:
    assert worded(what, value).startswith(said)
