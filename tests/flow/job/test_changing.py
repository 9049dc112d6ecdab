"""Which change of code is a change of meaning."""

from pathlib import Path
from typing import Any

import pyarrow as pa

import headwater as hw
from headwater.flow.declare.graph import plan
from headwater.flow.job.changing import CHANGED, KEEP, NEW, REMOVED, compare, descriptions, save, save_one
from headwater.flow.job.folder import JobFolder
from headwater.flow.job.resolving import Resolved

RESOLVED = Resolved(("currency",), pa.schema([("currency", pa.string()), ("total", pa.int64())]))


def described(
    condition: str = "amount > 1", schema: str = "id string, amount long, currency string", view: str = "totals"
) -> dict[str, Any]:
    app = hw.App("shop")
    orders = app.stream("orders", schema)
    app.view(key="currency", name=view)(lambda: orders.where(condition).by("currency").agg("sum(amount) as total"))
    (job,) = plan(app)
    return descriptions(job, {view: RESOLVED})


def verdicts(tmp_path: Path, before: dict[str, Any], now: dict[str, Any]) -> dict[str, str]:
    folder = JobFolder(tmp_path / "job")
    save(folder, before)
    return {one.output: one.what for one in compare(folder, now)}


def test_the_same_code_elsewhere_in_a_file_is_kept(tmp_path: Path) -> None:
    assert verdicts(tmp_path, described(), described()) == {"totals": KEEP}


def test_a_column_of_the_source_that_is_not_used_changes_nothing(tmp_path: Path) -> None:
    wider = described(schema="id string, amount long, currency string, note string")
    assert verdicts(tmp_path, described(), wider) == {"totals": KEEP}


def test_another_condition_is_a_change_and_the_sentence_shows_both(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path / "job")
    save(folder, described())
    (verdict,) = compare(folder, described("amount > 2"))
    assert verdict.what == CHANGED
    assert verdict.why == 'where condition was "amount > 1" and is "amount > 2"'


def test_outputs_come_and_go(tmp_path: Path) -> None:
    assert verdicts(tmp_path, described(), described(view="sums")) == {"sums": NEW, "totals": REMOVED}


def test_a_job_that_never_ran_has_nothing_to_compare_with(tmp_path: Path) -> None:
    assert [one.what for one in compare(JobFolder(tmp_path / "job"), described())] == [KEEP]


def test_one_output_can_become_another_while_the_others_stay(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path / "job")
    save(folder, {**described(), **described(view="sums")})
    save_one(folder, "totals", described("amount > 2")["totals"])
    assert [one.what for one in compare(folder, {**described("amount > 2"), **described(view="sums")})] == [KEEP, KEEP]
