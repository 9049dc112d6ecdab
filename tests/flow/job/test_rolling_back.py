"""A view goes back to what its last rebuild has replaced, at an equal position, and never half: whatever a crash
leaves, readers find a whole view of one version of the code, and the next run finishes."""

import random
from collections.abc import Callable
from typing import Any

import pytest

import headwater as hw
from headwater.errors import HeadwaterError, JobRefused
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.deploy import rebuild
from headwater.flow.deploy.replaced import Replaced
from headwater.flow.run.app_tester import AppTester
from headwater.views.tables import SqlStore

Tester = Callable[[hw.App], AppTester]
OLD, NEW = 50, 10
SCHEMA = "id long, user string, amount long, at timestamp"


def shop(least: int) -> hw.App:
    app = hw.App("shop", shards=2)
    orders = app.stream("orders", SCHEMA, time="at", lateness="1 minute")
    large: Any = orders.where(f"amount >= {least}")
    app.view(key="user", name="large")(lambda: large.by("user").agg("count(*) as n", "sum(amount) as spent"))
    app.view(key="user", name="last")(lambda: orders.latest("user"))
    minutes = large.window(hw.tumbling("1 minute")).by("user")
    app.view(key=["user", "window"], name="minutes")(lambda: minutes.agg("count(*) as n", emit="final"))
    return app


class Fed:
    """Rows at random, and what the view holds of them."""

    def __init__(self) -> None:
        self.random, self.rows = random.Random(5), list[dict[str, Any]]()

    def feed(self, app: AppTester, count: int) -> None:
        fresh = [
            {"id": len(self.rows) + one, "user": self.random.choice("abc"), "amount": self.random.randrange(100),
             "at": f"2026-03-01T{(len(self.rows) + one) // 60:02}:{(len(self.rows) + one) % 60:02}:00Z"}
            for one in range(count)
        ]  # fmt: skip
        self.rows += fresh
        app.feed("orders", fresh)

    def large(self, least: int) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        for row in self.rows:
            if row["amount"] >= least:
                n, spent = found.get(row["user"], (0, 0))
                found[row["user"]] = (n + 1, spent + row["amount"])
        return found


def held(app: AppTester) -> dict[str, tuple[int, int]]:
    return {row["user"]: (row["n"], row["spent"]) for row in app.rows("large")}


@pytest.fixture
def fed() -> Fed:
    return Fed()


def rebuilt(tester: Tester, fed: Fed) -> AppTester:
    """The old code, then the new, then more rows; the new one runs."""
    old = tester(shop(OLD))
    fed.feed(old, 20)
    old.run()
    new = tester(shop(NEW))
    new.run(rebuild=["large", "minutes"])
    fed.feed(new, 15)
    new.run()
    assert held(new) == fed.large(NEW)
    return new


def test_a_view_goes_back_and_forth_at_the_position_of_now(tester: Tester, fed: Fed) -> None:
    rebuilt(tester, fed)
    back = tester(shop(OLD))
    fed.feed(back, 5)
    back.run(rollback=["large", "minutes"])
    assert held(back) == fed.large(OLD)
    assert "large: 35 of 35 records replayed" in back.reported, "in one batch, from the 20 that it had"
    assert not any("large: 20 of" in line for line in back.reported)
    fed.feed(back, 5)
    back.run()
    assert held(back) == fed.large(OLD)
    forth = tester(shop(NEW))
    forth.run(rollback=["large", "minutes"])
    fed.feed(forth, 5)
    forth.run()
    assert held(forth) == fed.large(NEW)
    assert [forth.prove(name).result for name in ("large", "last", "minutes")] == ["proved"] * 3


def test_what_was_late_before_and_after_is_known(tester: Tester) -> None:
    """A late row counts for the version that it was late for."""
    old = tester(shop(OLD))

    def feed(app: AppTester, *rows: tuple[int, str]) -> None:
        app.feed("orders", [{"id": 1, "user": "a", "amount": 70, "at": f"2026-03-01T{at}Z"} for _, at in rows])

    feed(old, (1, "09:00:00"), (2, "10:00:00"))
    old.run()
    feed(old, (3, "09:00:30"))
    old.run()
    new = tester(shop(NEW))
    new.run(rebuild=["minutes", "large"])
    feed(new, (4, "11:00:00"))
    new.run()
    feed(new, (5, "09:30:00"), (6, "12:00:00"))
    new.run()
    back = tester(shop(OLD))
    back.run(rollback=["minutes", "large"])
    found = back.prove("minutes")
    assert (found.different, found.late >= 1) == (0, True)


@pytest.mark.on_spark  # which has to say why a job is refused
def test_what_cannot_go_back_is_said(tester: Tester, fed: Fed) -> None:
    new = rebuilt(tester, fed)
    with pytest.raises(JobRefused, match="large cannot go back: it is what this file says already"):
        tester(shop(NEW)).run(rollback=["large"])
    with pytest.raises(JobRefused, match="this file is other code"):
        tester(shop(60)).run(rollback=["large", "minutes"])
    with pytest.raises(JobRefused, match="view last has no version before it to go back to"):
        new.run(rollback=["last"])
    assert held(new) == fed.large(NEW)
    new.node.log.partition("orders", 0).delete_records(30)
    with pytest.raises(JobRefused, match=r"ends at offset 20 of orders/0, and those up to 29 are deleted"):
        tester(shop(OLD)).run(rollback=["large", "minutes"])
    new.run()
    assert held(new) == fed.large(NEW)


@pytest.mark.on_spark
def test_what_is_left_of_the_log_is_enough_to_go_back(tester: Tester, fed: Fed) -> None:
    new = rebuilt(tester, fed)
    new.node.log.partition("orders", 0).delete_records(20)
    back = tester(shop(OLD))
    with pytest.raises(JobRefused, match="large cannot be rebuilt: offsets 0 to 19 of orders/0 are deleted"):
        back.run(rebuild=["large", "minutes"])
    back.run(rollback=["large", "minutes"])
    assert held(back) == fed.large(OLD)


class Killed(Exception):
    """In place of kill -9: nothing is done after it."""


POINTS: list[tuple[Any, str, bool]] = [
    (SqlStore, "take_back", False), (SqlStore, "take_back", True), (Replaced, "go_back", True),
    (JobFolder, "finish", False), (rebuild, "note_caught_up", False), (rebuild, "note_caught_up", True),
    (Replaced, "begin", True), (Replaced, "take", True), (SqlStore, "swap", False), (SqlStore, "swap", True),
    (Replaced, "end", True), (rebuild, "note_rebuilt", True), (rebuild, "save_one", True), (rebuild, "forget", True),
]  # fmt: skip


@pytest.fixture(params=POINTS, ids=[f"{'after' if after else 'before'} {name}" for _, name, after in POINTS])
def killed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """A context in which the run dies at the point."""
    where, name, after = request.param
    own = getattr(where, name)

    def dying(*given: Any, **named: Any) -> Any:
        if after:
            own(*given, **named)
        raise Killed

    def planted() -> Any:
        context = monkeypatch.context()
        context.__enter__().setattr(where, name, dying)
        return context

    return planted


def test_a_rollback_that_is_killed_is_finished_by_the_next_run(
    tester: Tester, fed: Fed, killed: Callable[[], Any]
) -> None:
    new = rebuilt(tester, fed)
    back = tester(shop(OLD))
    context = killed()
    with pytest.raises((Killed, HeadwaterError)):
        back.run(rollback=["large", "minutes"])
    context.__exit__(None, None, None)
    assert held(new) in (fed.large(OLD), fed.large(NEW)), "readers find a whole view"
    tester(shop(OLD)).run(rollback=["large", "minutes"])
    fed.feed(back, 3)
    again = tester(shop(OLD))
    again.run()
    assert held(again) == fed.large(OLD)


def test_a_rebuild_that_is_killed_leaves_a_way_back_that_is_whole_or_none(
    tester: Tester, fed: Fed, killed: Callable[[], Any]
) -> None:
    old = tester(shop(OLD))
    fed.feed(old, 20)
    old.run()
    new = tester(shop(NEW))
    context = killed()
    try:
        new.run(rebuild=["large", "minutes"])
    except (Killed, HeadwaterError):
        pass
    context.__exit__(None, None, None)
    new = tester(shop(NEW))
    new.run(rebuild=["large", "minutes"])
    fed.feed(new, 4)
    new.run()
    assert held(new) == fed.large(NEW)
    back = tester(shop(OLD))
    back.run(rollback=["large", "minutes"])
    assert held(back) == fed.large(OLD)
