"""Whose clock is believed, from what producers send to what views hold."""

from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple

import headwater as hw
from headwater.flow.run.app_tester import AppTester
from headwater.flow.source.times.punctuation import HEADER
from headwater.record import Record
from tests.flow.job.windows_app import moment, reading

Tester = Callable[[hw.App], AppTester]
SLOWEST_WAY = timedelta(seconds=30)


class Measured(NamedTuple):
    """What a device has measured, when that truly was, and when it came."""

    row: dict[str, Any]
    true: datetime
    received: datetime


def measured(random: Random, number: int, wrong: timedelta) -> Measured:
    """By a device whose clock is wrong, and which sends when it is online again."""
    true = moment(random.uniform(0, 600))
    sent = true + timedelta(hours=random.uniform(0, 9))
    received = sent + random.random() * SLOWEST_WAY
    row = {"id": number, "occurred_at": (true + wrong).isoformat(), "sent_at": (sent + wrong).isoformat()}
    return Measured(row, true, received)


def fleet(most: str) -> hw.App:
    app = hw.App("fleet", shards=2)
    clock = hw.device_time(occurred="occurred_at", sent="sent_at", most=most)
    schema = "id long, occurred_at timestamp, sent_at timestamp"
    measurements = app.stream("measurements", schema, time=clock, lateness="1 day")
    app.view(key="id", name="estimates")(lambda: measurements.latest("id"))
    app.view(key="window", name="per_minute")(lambda: measurements.window(hw.tumbling("10 minutes")).count())
    return app


def test_the_true_times_of_devices_with_wrong_clocks_are_known_but_for_the_way(tester: Tester) -> None:
    random = Random(4)
    sent = [measured(random, number, timedelta(days=random.uniform(-5, 5))) for number in range(20)]
    lost = measured(random, 20, timedelta(days=400))
    subject = tester(fleet(most="6 days"))
    for one in sorted([*sent, lost], key=lambda one: one.received):
        subject.feed("measurements", [one.row], at=one.received.isoformat())
    subject.run()

    estimates = {row["id"]: row["at"] for row in subject.rows("estimates")}
    assert estimates.keys() == {one.row["id"] for one in sent}
    off = [estimates[one.row["id"]] - one.true for one in sent]
    assert max(off) <= SLOWEST_WAY
    assert min(off) >= timedelta(milliseconds=-1)
    (poisoned,) = subject.values("fleet.measurements.poisoned")
    assert "no correction above 6 days, 0:00:00 is believed" in poisoned["reason"]
    assert sum(row["count"] for row in subject.rows("per_minute")) == len(sent)
    assert (subject.account("per_minute").rows_in, subject.account("per_minute").poisoned) == (21, 1)
    assert subject.prove("per_minute").different == 0


def test_without_a_column_rows_happen_at_the_timestamps_of_their_records(tester: Tester) -> None:
    app = hw.App("web", shards=2)
    clicks = app.stream("clicks", "page string")
    app.view(key=["page", "window"], name="clicked")(
        lambda: clicks.window(hw.tumbling("1 minute")).by("page").count(emit="final")
    )
    subject = tester(app)
    for second in (3, 59, 60, 125):
        subject.feed("clicks", [{"page": "a"}], at=moment(second).isoformat())
    subject.run()
    assert [(row["window_start"], row["count"]) for row in subject.rows("clicked")] == [(moment(0), 2), (moment(60), 1)]
    assert subject.prove("clicked").different == 0


def plant(**options: Any) -> hw.App:
    app = hw.App("plant", shards=2)
    readings = app.stream("readings", "sensor string, value long, at timestamp", time="at", **options)
    app.view(key="window", name="minutes")(lambda: readings.window(hw.tumbling("1 minute")).count(emit="final"))
    return app


def emitted(subject: AppTester) -> list[tuple[float, int]]:
    """Seconds at which windows begin, and how many rows they have."""
    return [((row["window_start"] - moment(0)).total_seconds(), row["count"]) for row in subject.rows("minutes")]


def test_a_time_from_the_future_does_not_drag_the_watermark_with_it(tester: Tester) -> None:
    subject = tester(plant(ahead="1 hour", behind="1 day"))
    rows = [reading(1), reading(3 * 86400), reading(-2 * 86400), reading(2), reading(61)]
    subject.feed("readings", rows, at=moment(61).isoformat())
    subject.run()
    assert emitted(subject) == [(0, 2)]
    account = subject.account("minutes")
    assert (account.rows_in, account.rows_out, account.late, account.poisoned) == (5, 3, 0, 2)
    reasons = {row["offset"]: row["reason"] for row in subject.values("plant.readings.poisoned")}
    assert reasons == {
        1: "at: 2026-03-04T12:00:00+00:00 lies 2 days, 23:58:59 after its record (2026-03-01T12:01:01+00:00); "
        "at most 1:00:00 is believed",
        2: "at: 2026-02-27T12:00:00+00:00 lies 2 days, 0:01:01 before its record (2026-03-01T12:01:01+00:00); "
        "at most 1 day, 0:00:00 is believed",
    }


def test_a_producer_that_is_behind_is_waited_for_until_it_promises_that_nothing_more_comes(tester: Tester) -> None:
    subject = tester(plant(producer="sensor"))
    subject.feed("readings", [reading(1, "slow"), reading(1, "fast"), reading(130, "fast")], at=moment(130).isoformat())
    subject.run()
    assert emitted(subject) == [], "slow is at one second"
    subject.feed("readings", [reading(59, "slow")], at=moment(131).isoformat())
    subject.run()
    assert (emitted(subject), subject.account("minutes").late) == ([], 0)
    until = round(moment(61).timestamp() * 1000)
    promise = Record(None, b"slow", [(HEADER, str(until).encode())], until + 71_000)
    subject.node.log.append("readings", [promise])
    subject.run()
    assert emitted(subject) == [(0, 3)]
    assert subject.account("minutes").rows_in == 4, "a promise is no row"
    assert subject.prove("minutes").different == 0
