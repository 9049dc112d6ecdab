"""Windows from the log to views and topics: when they are emitted, what becomes of stragglers, and their proof."""

from collections.abc import Callable
from typing import Any

import headwater as hw
from headwater.flow.run.app_tester import AppTester
from tests.flow.job.windows_app import moment, one_view, reading

Tester = Callable[[hw.App], AppTester]


def spans(tester: AppTester) -> list[tuple[Any, ...]]:
    """Rows of the view: sensor, seconds of start and end, number, sum."""
    begin = moment(0)
    return [
        (
            row.get("sensor"), (row["window_start"] - begin).total_seconds(),
            (row["window_end"] - begin).total_seconds(), row["n"], row["total"],
        )
        for row in tester.rows("totals")
    ]  # fmt: skip


def changes(tester: AppTester) -> list[tuple[str, int | None, int | None]]:
    """What the topic has emitted: operation, number before, number after."""
    emitted = [value for value in tester.values("emitted") if value is not None]
    return [(one["op"], (one["before"] or {}).get("n"), (one["after"] or {}).get("n")) for one in emitted]


def test_updates_tell_every_window_at_once_and_then_its_changes(tester: Tester) -> None:
    plant = tester(one_view(hw.tumbling("1 minute")))
    plant.feed("readings", [reading(1, value=3), reading(59.999), reading(61)])
    plant.run()
    assert spans(plant) == [("a", 0, 60, 2, 4), ("a", 60, 120, 1, 1)]
    plant.feed("readings", [reading(62, value=5)])
    plant.run()
    assert spans(plant) == [("a", 0, 60, 2, 4), ("a", 60, 120, 2, 6)]
    assert changes(plant) == [("c", None, 2), ("c", None, 1), ("u", 1, 2)]
    assert plant.prove("totals").different == 0


def test_final_tells_a_window_once_when_nothing_can_come_for_it_any_more(tester: Tester) -> None:
    plant = tester(one_view(hw.tumbling("1 minute"), lateness="10 seconds", emit="final"))
    plant.feed("readings", [reading(1), reading(65)])
    plant.run()
    assert spans(plant) == []
    plant.feed("readings", [reading(59), reading(70)])
    plant.run()
    assert spans(plant) == [("a", 0, 60, 2, 2)], "the watermark has come to 60, and a tick has emitted it"
    plant.feed("readings", [reading(58, value=100), reading(75), reading(140)])
    plant.run()
    assert spans(plant) == [("a", 0, 60, 2, 2), ("a", 60, 120, 3, 3)]
    assert changes(plant) == [("c", None, 2), ("c", None, 3)]
    (late,) = plant.values("plant.readings.late")
    assert (late["topic"], late["partition"], late["offset"]) == ("readings", 0, 4)
    assert late["operator"] == "totals-kept"
    assert late["row"]["value"] == 100
    assert (late["time"], late["watermark"]) == ("2026-03-01T12:00:58Z", "2026-03-01T12:01:00Z")
    assert late["window"] == {"start": "2026-03-01T12:00:00Z", "end": "2026-03-01T12:01:00Z"}
    account = plant.account("totals")
    assert account.balanced
    assert (account.rows_in, account.rows_out, account.late) == (7, 6, 1)
    last = plant.values("plant.accounts")[-1]
    assert (last["watermark"], last["newest"]) == ("2026-03-01T12:02:10Z", "2026-03-01T12:02:20Z")
    assert last["idle"] == []
    assert plant.prove("totals").different == 0


def test_corrections_retract_the_old_value_and_tell_the_new(tester: Tester) -> None:
    plant = tester(one_view(hw.tumbling("1 minute"), emit="corrections", corrections="5 minutes"))
    plant.feed("readings", [reading(1), reading(61)])
    plant.run()
    assert changes(plant) == [("c", None, 1)]
    plant.feed("readings", [reading(2), reading(3, "b")])
    plant.run()
    assert changes(plant)[1:] == [("u", 1, 2), ("c", None, 1)]
    assert spans(plant) == [("a", 0, 60, 2, 2), ("b", 0, 60, 1, 1)]
    plant.feed("readings", [reading(360)])
    plant.run()
    plant.feed("readings", [reading(4)])
    plant.run()
    assert spans(plant)[0] == ("a", 0, 60, 2, 2), "its time is over"
    assert plant.account("totals").late == 1
    assert plant.prove("totals").different == 0


def test_a_view_that_is_built_anew_knows_which_rows_were_late_for_it_and_which_no_longer_are(tester: Tester) -> None:
    plant = tester(one_view(hw.tumbling("1 minute")))
    for rows in ([reading(1), reading(500)], [reading(2)]):
        plant.feed("readings", rows)
        plant.run()
    assert plant.account("totals").late == 1
    assert spans(plant) == [("a", 0, 60, 1, 1), ("a", 480, 540, 1, 1)]

    plant.run(rebuild=["totals"])  # in one batch, in which nothing is late
    assert spans(plant) == [("a", 0, 60, 2, 2), ("a", 480, 540, 1, 1)]
    assert plant.prove("totals").different == 0

    plant.run(rebuild=["totals"], rows_per_batch=2)  # where the watermark is as far as it was
    assert spans(plant) == [("a", 0, 60, 1, 1), ("a", 480, 540, 1, 1)]
    assert plant.prove("totals").different == 0
