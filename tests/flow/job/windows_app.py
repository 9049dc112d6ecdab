"""Windows of every kind over one stream, and rows for them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import headwater as hw

SCHEMA = "sensor string, value long, at timestamp"
BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)


def moment(second: float) -> datetime:
    return BEGIN + timedelta(seconds=second)


def reading(second: float, sensor: str = "a", value: int = 1) -> dict[str, Any]:
    return {"sensor": sensor, "value": value, "at": moment(second).isoformat()}


def one_view(window: Any, *, lateness: str = "0s", by: tuple[str, ...] = ("sensor",), **emission: Any) -> hw.App:
    """View `totals` and topic `emitted`: number and sum of the readings of each sensor and window."""
    app = hw.App("plant", shards=2)
    readings = app.stream("readings", SCHEMA, time="at", lateness=lateness)

    def totals() -> Any:
        cut = readings.window(window)
        return (cut.by(*by) if by else cut).agg("count(*) as n", "sum(value) as total", **emission, name="totals-kept")

    made: list[Any] = []

    def shared() -> Any:
        made[:] = made or [totals()]
        return made[0]

    app.view(key=[*by, "window"], name="totals")(shared)
    app.topic("emitted")(shared)
    return app
