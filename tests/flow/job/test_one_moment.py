"""Views of one job in one store change together: whoever reads several of them finds the same batch in all."""

import sqlite3
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import headwater as hw
from headwater.flow.declare.stream import Table
from headwater.flow.declare.topology.graph import plan
from headwater.flow.run.app_tester import AppTester
from headwater.views.mark import Mark
from headwater.views.sqlite import SqliteStore
from headwater.views.store import open_store

ACCOUNTS = 7


def bank(*, one_job: bool) -> hw.App:
    """Money that moves between accounts: the view of an app's transfers, and that of its fees, are of two topics."""
    app = hw.App("bank", one_job=one_job)
    transfers = app.stream("transfers", "debit long, credit long, amount decimal(12,2)")
    fees = app.stream("fees", "debit long, amount decimal(12,2)")

    @app.view(key="debit")
    def paid() -> Table:
        return transfers.by("debit").agg("sum(amount) as amount")

    @app.view(key="credit")
    def received() -> Table:
        return transfers.by("credit").agg("sum(amount) as amount")

    @app.view(key="debit")
    def charged() -> Table:
        return fees.by("debit").agg("sum(amount) as amount")

    return app


def transfer(number: int) -> dict[str, object]:
    return {"debit": number % ACCOUNTS, "credit": number % 5, "amount": f"{number % 13}.25"}


def test_every_moment_between_writes_is_one_of_all_views(
    tester: Callable[[hw.App], AppTester], monkeypatch: pytest.MonkeyPatch
) -> None:
    bank_tester = tester(bank(one_job=False))
    file, moments = bank_tester.node.data / "views" / "bank.sqlite", []
    write = SqliteStore.write

    def observed(self: SqliteStore, view: str, mark: Mark, rows: pa.Table, **rest: object) -> bool:
        done = write(self, view, mark, rows, **rest)  # type: ignore[arg-type]
        moments.append(totals(file))
        return done

    monkeypatch.setattr(SqliteStore, "write", observed)
    for batch in range(4):
        bank_tester.feed("transfers", [transfer(number) for number in range(batch, 40 + batch)])
        bank_tester.feed("fees", [{"debit": 1, "amount": "0.10"}])
        bank_tester.run()
    assert len({paid for paid, _ in moments if paid}) >= 3, "the test has looked while there was something to see"
    assert [one for one in moments if one[0] != one[1]] == []
    paid, received = totals(file)
    assert paid == received > 0


def totals(file: Path) -> tuple[Decimal, Decimal]:
    """Of what was paid and what was received, as another process sees both at one moment."""
    reader = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, isolation_level=None)
    try:
        reader.execute("BEGIN")
        found = [
            sum((Decimal(str(value)) for (value,) in reader.execute(f"SELECT amount FROM {view}")), Decimal(0))
            for view in ("paid", "received")
        ]
        reader.execute("COMMIT")
    finally:
        reader.close()
    return found[0], found[1]


def test_one_job_keeps_views_of_different_topics_at_one_position(tester: Callable[[hw.App], AppTester]) -> None:
    app = bank(one_job=True)
    (job,) = plan(app)
    assert job.topics == ["fees", "transfers"]
    bank_tester = tester(app)
    for batch in range(3):
        bank_tester.feed("transfers", [transfer(batch)])
        bank_tester.feed("fees", [{"debit": batch, "amount": "0.10"}])
        bank_tester.run()
    store = open_store(bank_tester.node.data, "bank", read_only=True)
    marks = [store.mark(view) for view in ("paid", "received", "charged")]
    store.close()
    assert len({(one.job, one.batch, str(one.position)) for one in marks if one}) == 1
    assert {row["debit"] for row in bank_tester.rows("charged")} == {0, 1, 2}


def test_outputs_of_different_topics_have_jobs_of_their_own_unless_asked() -> None:
    assert sorted(job.name for job in plan(bank(one_job=False))) == ["fees", "transfers"]
