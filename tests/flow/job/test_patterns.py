"""Patterns as operators of a job: accounts, late rows, results in topics and views, and their proof."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import headwater as hw
from headwater.flow.run.app_tester import AppTester

Tester = Callable[[hw.App], AppTester]
BEGIN = datetime(2026, 3, 1, 9, tzinfo=UTC)


def payment(card: str, amount: float, minute: float, kind: str = "payment") -> dict[str, Any]:
    at = (BEGIN + timedelta(minutes=minute)).isoformat()
    return {"card": card, "amount": amount, "kind": kind, "at": at}


def bank(lateness: str = "1 minute", **words: Any) -> tuple[hw.App, Any]:
    app = hw.App("bank")
    payments = app.stream(
        "payments", "card string, amount double, kind string, at timestamp", time="at", lateness=lateness
    )
    matches = payments.match(
        by="card", order="at", within="10 minutes", pattern="small{3,} {- other*? -} large",
        define={"small": "amount < 2", "large": "amount > 500 and amount > 50 * avg(small.amount)",
                "other": "kind <> 'confirmed'"},
        **{"measures": {"tries": "count(small.*)", "first": "first(small.at)", "amount": "large.amount"}} | words,
    )  # fmt: skip
    return app, matches


TESTED = [
    payment("ann", 1, 0), payment("ann", 1.5, 1), payment("bob", 1, 1), payment("ann", 1, 2), payment("ann", 30, 3),
    payment("ann", 600, 4), payment("bob", 700, 5), payment("eve", 1, 5), payment("eve", 1, 6), payment("eve", 1, 7),
    payment("eve", 90, 8, "confirmed"), payment("eve", 900, 9),
]  # fmt: skip


def test_a_card_that_is_tried_is_found_and_every_row_is_accounted_for(tester: Tester) -> None:
    declared, matches = bank()
    declared.topic("suspicious", key="card")(lambda: matches)
    app = tester(declared)
    app.feed("payments", TESTED[:5])
    app.run()
    app.feed("payments", TESTED[5:])
    app.flush()
    assert app.values("suspicious") == [
        {"match_id": "payments/0@0", "card": "ann", "tries": 3, "first": "2026-03-01T09:00:00.000Z", "amount": 600.0}
    ]
    assert app.account("suspicious").rows_out == app.account("suspicious").rows_in == len(TESTED)
    assert app.account("suspicious").balanced


def test_late_rows_are_counted_and_say_why(tester: Tester) -> None:
    declared, matches = bank()
    declared.topic("suspicious", key="card")(lambda: matches)
    app = tester(declared)
    app.feed("payments", TESTED)
    app.run()
    app.feed("payments", [payment("ann", 1, 2)])
    app.run()
    assert app.account("suspicious").late == 1
    (late,) = app.values(next(one.name for one in app.node.log.topics() if one.name.endswith("late")))
    assert late["reason"].endswith("s behind the watermark, and matches that it could change are decided")


def test_an_attempt_that_fails_is_counted_and_says_why(tester: Tester) -> None:
    declared = hw.App("bank")
    payments = declared.stream("payments", "card string, amount double, kind string, at timestamp", time="at")
    matches = payments.match(by="card", pattern="a b", define={"b": "amount > a.amount"}, skip="to first a")
    declared.topic("found", key="card")(lambda: matches)
    app = tester(declared)
    app.feed("payments", [payment("ann", 1, 0), payment("ann", 2, 1), payment("ann", 1, 2)])
    app.flush()
    assert app.values("found") == []
    assert (app.account("found").filtered, app.account("found").balanced) == (1, True)
    (said,) = app.values(next(one.name for one in app.node.log.topics() if one.name.endswith("late")))
    assert said["reason"] == (
        'a match that would begin with this row cannot be had for card = "ann": after match skips to the first row of '
        "the match, from where it would be found again without end"
    )


def test_measures_that_are_computed_of_several_are_columns_like_others(tester: Tester) -> None:
    declared, matches = bank(measures={"times": "large.amount / avg(small.amount)", "rows": "count(*)"})
    declared.topic("suspicious", key="card")(lambda: matches)
    app = tester(declared)
    app.feed("payments", TESTED)
    app.flush()
    (found,) = app.values("suspicious")
    assert found["card"], found["rows"] == ("ann", 5)
    assert abs(found["times"] - 600 / (3.5 / 3)) < 1e-9


def test_corrections_retract_and_replace_matches_and_the_view_is_proved(tester: Tester) -> None:
    declared, matches = bank(corrections="1 hour")
    declared.view(key="match_id", name="suspicious")(lambda: matches)
    app = tester(declared)

    def found(*rows: dict[str, Any]) -> list[tuple[str, int]]:
        app.feed("payments", rows)
        app.run()
        return [(one["card"], one["tries"]) for one in app.rows("suspicious")]

    assert found(*TESTED, payment("zed", 1, 20)) == [("ann", 3)]
    assert found(payment("ann", 1.75, 2.5), payment("eve", 1, 8.5)) == [("ann", 4)]
    assert found(payment("ann", 3, 3.5, "confirmed")) == []
    assert found(payment("bob", 1, 3), payment("bob", 1, 4)) == [("bob", 3)]
    assert app.account("suspicious").late == 0
    assert app.prove("suspicious").different == 0


def test_operators_downstream_of_a_pattern_are_given_its_matches_and_proved(tester: Tester) -> None:
    declared, matches = bank(rows="all", measures={"label": "classifier()", "so_far": "sum(small.amount)"})
    declared.view(key=["card", "label"], name="labels")(
        lambda: matches.by("card", "label").agg("count(*) as n", "max(so_far) as most")
    )
    declared.view(key=["card", "window"], name="hours")(
        lambda: matches.window(hw.tumbling("1 hour")).by("card").agg("count(*) as n", emit="final")
    )
    app = tester(declared)
    app.feed("payments", TESTED)
    app.flush()
    labels = sorted((one["card"], one["label"], one["n"], one["most"]) for one in app.rows("labels"))
    assert labels == [("ann", "large", 1, 3.5), ("ann", "small", 3, 3.5)]
    assert [(one["card"], one["n"]) for one in app.rows("hours")] == [("ann", 4)]
    assert app.prove("labels").different == 0
    assert app.prove("hours").different == 0
