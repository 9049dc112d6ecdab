"""GET /views: what there is, one row, many rows; at least at a position."""

import asyncio
from threading import Event
from typing import Any

from starlette.concurrency import run_in_threadpool

from headwater.errors import ViewBehind
from headwater.serve.answers import Asked, Invalid
from headwater.serve.endpoints import Endpoint, Parameter, several, text, whole
from headwater.serve.positions import next_offsets
from headwater.serve.stores import Stores
from headwater.serve.topics import AT_LEAST, TIMEOUT, pause
from headwater.views.column_types import spoken
from headwater.views.full_text import FullTextIndex, index_folder
from headwater.views.locations import ViewLocation
from headwater.views.mark import covers
from headwater.views.mark import spoken as spoken_position
from headwater.views.plain import plain
from headwater.views.query import key_query, parse_condition, parse_query
from headwater.views.store import Snapshot

ROWS_MAX = 1000
SKIP_MAX = 100_000
WAITING_MAX = 64

VIEW = text("view", "the name of the view, as VIEW or APP.VIEW", in_path=True, longest=300)
WHERE = several("where", 'a condition that rows must meet, such as "amount > 100"; all of them count')
KEY = several("key", "the values of the key, in the order of its columns")
POSITION: dict[str, Any] = {
    "type": "object",
    "description": "topic -> partition -> the next offset: all before it is in the view",
    "additionalProperties": {"type": "object", "additionalProperties": {"type": "integer"}},
}
ROW: dict[str, Any] = {
    "type": "object",
    "description": "decimals and times are strings, so that no digit is lost; binary is hexadecimal",
}
DESCRIBED: dict[str, Any] = {
    "type": "object",
    "required": ["name", "app", "view", "key", "columns", "position", "change"],
    "properties": {
        "name": {"type": "string"},
        "app": {"type": "string"},
        "view": {"type": "string"},
        "key": {"type": "array", "items": {"type": "string"}},
        "columns": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "type": {"type": "string"}},
            },
        },
        "position": POSITION,
        "change": {"type": "integer", "description": "how many writes it has seen"},
        "updated_ms": {"type": "integer"},
        "searchable": {"type": "boolean"},
    },
}
ROWS: dict[str, Any] = {
    "type": "object",
    "required": ["view", "position", "rows"],
    "properties": {
        "view": {"type": "string"},
        "position": POSITION,
        "rows": {"type": "array", "items": ROW},
        "next": {"type": "integer", "description": "say it as skip to get the next page; absent on the last"},
    },
}
ONE_ROW: dict[str, Any] = {
    "type": "object",
    "required": ["view", "position", "row"],
    "properties": {"view": {"type": "string"}, "position": POSITION, "row": ROW},
}
ASKING: tuple[Parameter, ...] = (
    VIEW,
    WHERE,
    text("order", 'columns to sort by, such as "amount desc, id"'),
    whole("limit", "rows at most", least=1, most=ROWS_MAX, default=100),
    whole("skip", "rows to leave out first", least=0, most=SKIP_MAX, default=0),
    AT_LEAST,
    TIMEOUT,
)


class Views:
    def __init__(self, stores: Stores, wait_seconds_max: float, stopping: Event) -> None:
        self._stores, self._wait_seconds_max, self._stopping = stores, wait_seconds_max, stopping
        self._waiting = 0

    def endpoints(self) -> list[Endpoint]:
        failures = (404, 409, 412, 422)
        many = {"type": "array", "items": DESCRIBED}
        return [
            Endpoint("/views", "All views", self.listed, many, tag="views", operation="listViews"),
            Endpoint(
                "/views/{view}", "One view", self.describe, DESCRIBED, (VIEW,), failures, tag="views",
                operation="describeView",
            ),
            Endpoint(
                "/views/{view}/rows", "Rows of a view, filtered, ordered, in pages", self.rows, ROWS, ASKING, failures,
                wait=self.wait, tag="views", operation="readRows",
            ),
            Endpoint(
                "/views/{view}/row", "The row of one key", self.row, ONE_ROW, (VIEW, KEY, AT_LEAST, TIMEOUT), failures,
                wait=self.wait, tag="views", operation="readRow",
            ),
        ]  # fmt: skip

    def listed(self, asked: Asked) -> list[dict[str, Any]]:
        return [self._described(kept, name) for kept, name in self._stores.all()]

    def describe(self, asked: Asked) -> object:
        return self._described(*self._stores.find(asked["view"]))

    def _described(self, kept: ViewLocation, name: str) -> dict[str, Any]:
        with self._stores.opened(kept) as store, store.snapshot(name) as snapshot:
            shape, mark = snapshot.shape, snapshot.mark
        return {
            "name": f"{kept.app}.{name}",
            "app": kept.app,
            "view": name,
            "key": list(shape.key),
            "columns": [{"name": column.name, "type": spoken(column.type)} for column in shape.columns],
            "position": position_json(mark.position),
            "change": mark.change,
            "updated_ms": mark.updated_ms,
            "searchable": FullTextIndex(index_folder(self._stores.data, kept.app, name)).exists(),
        }

    async def wait(self, asked: Asked) -> None:
        """Until the view is as far as asked. Looked at again and again from here: who waits holds no thread."""
        if asked["at_least"] is None:
            return
        if self._waiting >= WAITING_MAX:
            raise Invalid("too many wait for a position at once; try again", status=429, name="TooMany")
        self._waiting += 1
        try:
            await self._wait(asked, next_offsets(asked["at_least"]))
        finally:
            self._waiting -= 1

    async def _wait(self, asked: Asked, wanted: dict[str, dict[int, int]]) -> None:
        found = await run_in_threadpool(self._stores.find, asked["view"])
        position: dict[str, Any] = {}
        waited = min(asked["timeout_ms"] / 1000, self._wait_seconds_max)
        try:
            async with asyncio.timeout(waited):
                while not covers(position := await run_in_threadpool(self._position, *found), wanted):
                    await pause(self._stopping)  # no store wakes us
        except TimeoutError:
            has = spoken_position(position)
            raise ViewBehind(found[1], wanted=spoken_position(wanted), has=has, waited=waited) from None

    def _position(self, kept: ViewLocation, name: str) -> Any:
        with self._stores.opened(kept) as store, store.snapshot(name) as snapshot:
            return snapshot.mark.position

    def rows(self, asked: Asked) -> object:
        kept, name = self._stores.find(asked["view"])
        where = conditions(asked["where"])
        limit, skip = asked["limit"], asked["skip"]
        with self._stores.opened(kept) as store, store.snapshot(name) as snapshot:
            order = asked["order"] or list(snapshot.shape.key)
            query = parse_query(snapshot.shape, where, order, limit + 1, skip)
            rows = snapshot.select(query)
            position = position_json(snapshot.mark.position)
        said = {"view": f"{kept.app}.{name}", "position": position, "rows": [plain(row) for row in rows[:limit]]}
        return {**said, "next": skip + limit} if len(rows) > limit else said

    def row(self, asked: Asked) -> object:
        kept, name = self._stores.find(asked["view"])
        with self._stores.opened(kept) as store, store.snapshot(name) as snapshot:
            rows = self._select_key(snapshot, name, asked["key"])
            position = position_json(snapshot.mark.position)
        if not rows:
            key = ", ".join(asked["key"])
            raise Invalid(f"view {name} has no row with the key {key[:200]}", status=404, name="UnknownKey")
        return {"view": f"{kept.app}.{name}", "position": position, "row": plain(rows[0])}

    def _select_key(self, snapshot: Snapshot, name: str, key: list[str]) -> list[dict[str, object]]:
        return snapshot.select(key_query(snapshot.shape, name, key))


def conditions(said: list[str]) -> dict[str, object]:
    """Invalid where one column is compared twice in the same way: only one of both would count."""
    found: dict[str, object] = {}
    for one in said:
        term, value = parse_condition(one)
        if term in found:
            raise Invalid(f"{term[:80]!r} is compared twice; say it once")
        found[term] = value
    return found


def position_json(position: Any) -> dict[str, dict[str, int]]:
    return {topic: {str(number): offset for number, offset in offsets.items()} for topic, offsets in position.items()}
