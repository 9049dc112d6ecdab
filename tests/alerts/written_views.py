"""Views that alerts look at, written as a job would write them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from headwater.views.mark import Mark
from headwater.views.store import ViewStore, open_store

APP, ALERT, VIEW = "shop", "too_slow", "latencies"
PLAIN = pa.schema([("url", pa.string()), ("p99", pa.float64())])
TEXTS = pa.schema([("url", pa.string()), ("page", pa.string())])
TIME = pa.timestamp("us", "UTC")
WINDOWS = pa.schema([("url", pa.string()), ("window_start", TIME), ("window_end", TIME), ("errors", pa.int64())])
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class WrittenViews:
    """The view and the alert's: each batch is written to the one and then to the other."""

    def __init__(self, data: Path, schema: pa.Schema = PLAIN) -> None:
        self.store: ViewStore = open_store(data, APP)
        self.schema, self.batch = schema, -1
        key = [name for name in schema.names if name in ("url", "window_start", "window_end")]
        for view in (VIEW, ALERT):
            self.store.prepare(view, schema, key)

    def write(self, holding: list[dict[str, Any]], others: list[dict[str, Any]] | None = None) -> None:
        """`holding` meet the condition, or no longer do (`_op` d); `others` are only in the view."""
        self.begin([*holding, *(others or [])])
        self.finish(holding)

    def begin(self, rows: list[dict[str, Any]]) -> None:
        self.batch += 1
        # A key deleted from the alert's view is still in the base view, with another row.
        self._write(VIEW, [{**row, "_op": "u"} for row in rows])

    def finish(self, rows: list[dict[str, Any]]) -> None:
        self._write(ALERT, rows)

    def _write(self, view: str, rows: list[dict[str, Any]]) -> None:
        schema = self.schema.append(pa.field("_op", pa.string()))
        listed = [{"_op": "u", **row} for row in rows]
        self.store.write(view, Mark("shop/1", self.batch, {}), pa.Table.from_pylist(listed, schema))


def minute(number: int, url: str = "/", errors: int = 9, **more: Any) -> dict[str, Any]:
    """A window of a minute."""
    start = NOON + timedelta(minutes=number)
    return {"url": url, "window_start": start, "window_end": start + timedelta(minutes=1), "errors": errors, **more}
