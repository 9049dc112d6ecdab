"""Jobs whose state and checkpoint are kept in a bucket, or in a folder that machines share: another machine, with an
empty folder, goes on where this one was."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.errors import JobRefused, JobTakenOver
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.declare.app import App
from headwater.flow.run.app_tester import AppTester
from headwater.testing import running_node
from tests.flow.engines import Engine, moved_to_spark

SCHEMA = "id long, currency string, amount long"


def shop(least: int = 0, shards: int = 2) -> App:
    app = hw.App("shop", shards=shards)
    orders = app.stream("orders", SCHEMA)
    app.view(key="currency", name="revenue")(
        lambda: (
            orders.where(f"amount >= {least}")
            .by("currency")
            .agg("count(*) as orders", "sum(amount) as revenue", "min(amount) as least")
        )
    )
    app.topic("large", key="id")(lambda: orders.where("amount >= 7").select("id", "amount"))
    return app


def orders(first: int, end: int) -> list[dict[str, Any]]:
    return [{"id": one, "currency": "EUR" if one % 3 else "SEK", "amount": one % 10} for one in range(first, end)]


def revenue(end: int, least: int = 0) -> list[dict[str, object]]:
    found = []
    for currency in ("EUR", "SEK"):
        amounts = [one["amount"] for one in orders(0, end) if one["currency"] == currency and one["amount"] >= least]
        found.append({"currency": currency, "orders": len(amounts), "revenue": sum(amounts), "least": min(amounts)})
    return found


Tester = Callable[..., AppTester]


@pytest.fixture(params=["s3", "folder"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.getfixturevalue("s3")) if request.param == "s3" else str(tmp_path / "shared")


@pytest.fixture
def tester(engine: Engine, place: str, tmp_path: Path) -> Iterator[Tester]:
    made: list[AppTester] = []
    with running_node(tmp_path / "data") as node:

        def make(app: App, state: str = place) -> AppTester:
            made.append(AppTester(app, node, engine, state=state))
            return made[-1]

        yield make
    assert [why for one in made for why in moved_to_spark(one)] == []


def lose_the_machine(tester: AppTester) -> None:
    """All that it has of its jobs; the log and the views are elsewhere."""
    shutil.rmtree(tester.node.data / "flows")


def folder(tester: AppTester) -> JobFolder:
    (found,) = (tester.node.data / "flows" / "shop").glob("*/kept_at.json")
    return JobFolder(found.parent)


def fed_and_run(tester: AppTester, first: int, end: int) -> None:
    tester.feed("orders", orders(first, end))
    tester.run(rows_per_batch=40)


def test_another_machine_goes_on_where_the_lost_one_was(tester: Tester) -> None:
    app = tester(shop())
    fed_and_run(app, 0, 100)
    lose_the_machine(app)
    fed_and_run(app, 100, 200)
    lose_the_machine(app)
    fed_and_run(app, 200, 230)
    assert app.rows("revenue") == revenue(230)
    assert app.account("revenue").rows_in == 230
    assert sorted(one["id"] for one in app.values("large")) == [one for one in range(230) if one % 10 >= 7]


def test_no_state_lies_on_the_machine(tester: Tester) -> None:
    app = tester(shop())
    fed_and_run(app, 0, 100)
    assert not folder(app).state.exists()


def test_many_batches_leave_few_objects(tester: Tester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.flow.objects.checkpoint.HEAD_BYTES_MAX", 3000)
    app = tester(shop())
    for number in range(24):
        fed_and_run(app, number * 10, number * 10 + 10)
    kept = folder(app)._kept()
    assert kept is not None
    operator = folder(app).operators()[0]
    assert len(kept.objects.list("snapshots")) <= 2
    assert len(kept.objects.list(f"state/{operator}/versions")) <= 26
    lose_the_machine(app)
    fed_and_run(app, 240, 250)
    assert app.rows("revenue") == revenue(250)


def test_the_same_folder_goes_on_without_the_place_being_named_again(tester: Tester) -> None:
    fed_and_run(tester(shop()), 0, 50)
    app = tester(shop(), state="")
    fed_and_run(app, 50, 100)
    assert app.rows("revenue") == revenue(100)
    assert not folder(app).state.exists()


def test_a_checkpoint_on_the_machine_is_not_mixed_with_one_elsewhere(tester: Tester, place: str) -> None:
    app = tester(shop(), state="")
    fed_and_run(app, 0, 50)
    (path,) = (one.parent for one in (app.node.data / "flows" / "shop").glob("*/identity.json"))
    with pytest.raises(JobRefused, match=r"holds a checkpoint of its own.* Run it without --state; or move"):
        JobFolder(path).take(place)


def test_a_job_that_is_kept_at_one_place_is_not_run_at_another(tester: Tester, tmp_path: Path) -> None:
    app = tester(shop())
    fed_and_run(app, 0, 50)
    with pytest.raises(JobRefused, match=r"is kept at .*, not at .*other"):
        folder(app).take(str(tmp_path / "other"))


def test_a_view_is_rebuilt_and_the_next_machine_has_it(tester: Tester) -> None:
    fed_and_run(tester(shop()), 0, 100)
    changed = tester(shop(least=3))
    changed.run(rows_per_batch=40, rebuild=["revenue"])
    assert changed.rows("revenue") == revenue(100, least=3)
    lose_the_machine(changed)
    fed_and_run(changed, 100, 150)
    assert changed.rows("revenue") == revenue(150, least=3)


def test_state_is_looked_into_and_checked_wherever_it_is(tester: Tester) -> None:
    from headwater.flow.deploy.inventory import jobs_in

    app = tester(shop())
    fed_and_run(app, 0, 100)
    ((operator,),) = [job.operators() for job in jobs_in(app.node.data)]
    newest = operator.newest()
    assert newest is not None
    assert newest.version == 2
    assert operator.check() == []


def test_shards_are_changed_wherever_state_is(tester: Tester) -> None:
    from headwater.flow.deploy.inventory import jobs_in
    from headwater.flow.deploy.resharding import reshard_job

    app = tester(shop())
    fed_and_run(app, 0, 100)
    (job,) = jobs_in(app.node.data)
    assert reshard_job(job, 4).operators != ()
    lose_the_machine(app)
    again = tester(shop(shards=4))
    fed_and_run(again, 100, 150)
    assert again.rows("revenue") == revenue(150)


def test_a_driver_that_was_overtaken_commits_nothing_and_says_by_whom(tester: Tester) -> None:
    app = tester(shop())
    fed_and_run(app, 0, 50)
    older = JobFolder(folder(app).path)
    older.take()
    batches = older.batches()
    newer = JobFolder(folder(app).path)
    newer.take()
    with pytest.raises(JobTakenOver, match=r"was taken over by process \d+ on .* at .*Z; this process stops$"):
        older.write("planned.json", {"batches": []})
    with pytest.raises(JobTakenOver):
        older.check_own()
    newer.check_own()
    assert newer.batches() == batches
