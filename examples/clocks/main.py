"""Draw what the guide says about time: why windows by processing time lie, and what comparing windows shows."""

import math
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import headwater as hw
from examples.clocks.charts import Chart, Panel, Point
from headwater.testing import running_app

BEGIN = datetime(2026, 3, 2, 12, tzinfo=UTC)
PER_SECOND, WINDOW, MINUTES, STOPPED = 2, 30, 5, (120, 180)


def site() -> hw.App:
    """The same requests, counted by when they were made, and by when the job came to read of them."""
    app = hw.App("site")
    requests = app.stream("requests", "path string, at timestamp", time="at")

    @app.view(key="window")
    def by_event_time() -> Any:
        return requests.window(hw.tumbling("30 seconds")).count()

    @app.view(key="window")
    def by_processing_time() -> Any:
        return requests.window(hw.tumbling("30 seconds"), time="processing").count()

    return app


def moments() -> list[float]:
    """When the job takes what has come: every thirty seconds, but for the minute in which it stands still."""
    every = [start + WINDOW - 0.5 for start in range(0, 60 * MINUTES, WINDOW)]
    return sorted([*(one for one in every if not STOPPED[0] <= one < STOPPED[1]), STOPPED[1] + 0.5])


def false_spike() -> dict[str, list[Point]]:
    """Requests in each window of thirty seconds, at a rate that never changes."""
    made, counts = 0, {}
    with running_app(site()) as tester:
        for moment in moments():
            due = int(moment * PER_SECOND) + 1
            times = [at(number / PER_SECOND) for number in range(made, due)]
            tester.feed("requests", [{"path": "/", "at": time} for time in times], at=at(moment))
            tester.run_at(at(moment))
            made = due
        for view in ("by_processing_time", "by_event_time"):
            counts[view] = [((row["window_start"] - BEGIN).total_seconds(), row["count"]) for row in tester.rows(view)]
    return counts


def at(second: float) -> str:
    return (BEGIN + timedelta(seconds=second)).isoformat()


def spike_chart(counts: dict[str, list[Point]]) -> Chart:
    panels = [
        Panel("by processing time: requests in each 30 s", counts["by_processing_time"], WINDOW),
        Panel("by event time", counts["by_event_time"], WINDOW),
    ]
    ticks = [(60.0 * minute, f"12:{minute:02d}") for minute in range(MINUTES + 1)]
    title = "Two requests a second; the job stands still for a minute"
    return Chart(title, panels, 0, 60 * MINUTES, ticks, (*STOPPED, "stopped"), one_scale=True)


# -- comparisons -------------------------------------------------------------------------------------------------------

MIDNIGHT = BEGIN - timedelta(hours=12)
DAYS, ODD_HOUR, MISSING = 9, 8 * 24 + 15, 8 * 24 + 4


def usual(hour: int) -> int:
    """Busy by day, quiet by night, no two days quite the same."""
    return round(400 - 250 * math.cos(2 * math.pi * (hour % 24) / 24) + 20 * math.sin(hour * hour))


def compared() -> list[dict[str, Any]]:
    app = hw.App("site")
    served = app.stream("served", "requests long, at timestamp", time="at")

    @app.view(key="window")
    def hours() -> Any:
        table = served.window(hw.tumbling("1 hour")).agg("sum(requests) as n")
        return table.compare(
            average=hw.rolling("n", 24),
            yesterday=hw.ratio("n", "1 day"),
            odd=hw.anomaly("n", season="1 day", over=7, deviations=4),
        )

    hours_there = [hour for hour in range(24 * DAYS) if hour != MISSING]
    rows = [{"requests": usual(hour), "at": (MIDNIGHT + timedelta(hours=hour)).isoformat()} for hour in hours_there]
    rows[ODD_HOUR - 1]["requests"] = 260
    with running_app(app) as tester:
        tester.feed("served", rows)
        tester.run()
        return tester.rows("hours")


def comparison_chart(rows: list[dict[str, Any]]) -> Chart:
    hour = {row["window_start"]: (row["window_start"] - MIDNIGHT).total_seconds() / 3600 for row in rows}
    odd = frozenset(hour[row["window_start"]] for row in rows if row["odd"])
    bars = [(hour[row["window_start"]], row["n"]) for row in rows]
    average = [(hour[row["window_start"]] + 0.5, row["average"]) for row in rows]
    ratio = [(hour[row["window_start"]], row["yesterday"]) for row in rows if row["yesterday"] is not None]
    panels = [
        Panel("requests an hour, their average over a day, and (red) what is odd for its hour", bars, 1, average, odd),
        Panel("against the same hour of the day before", ratio, 1, marked=odd),
    ]
    ticks = [(24.0 * day, f"{MIDNIGHT + timedelta(days=day):%d %b}") for day in range(DAYS + 1)]
    return Chart("Nine days of requests, compared with themselves", panels, 0, 24 * DAYS, ticks)


def draw(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "false-spike.svg").write_text(spike_chart(false_spike()).svg())
    (folder / "comparisons.svg").write_text(comparison_chart(compared()).svg())


if __name__ == "__main__":
    draw(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/guide/pictures"))
