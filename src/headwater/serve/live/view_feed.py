"""A view as it changes: a snapshot, then what changed since the subscriber's own position.

Nothing is queued. A position is the number of a write, and the store can say what changed since; so a subscriber that
reads slowly receives events less often, each key with its current row, and holds no memory here.
"""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any, NamedTuple

from headwater.errors import HeadwaterError
from headwater.serve.answers import Invalid
from headwater.serve.live.events import Event, end, in_parts
from headwater.serve.live.feeds import Bell, Shared, changed, pause_for
from headwater.serve.stores import Stores
from headwater.views.locations import ViewLocation
from headwater.views.plain import plain
from headwater.views.query import Query
from headwater.views.shape import Shape
from headwater.views.store import Snapshot

ROWS_MAX = 20_000
"""The most rows of a snapshot, and of changes that are sent instead of a new snapshot."""

STEP_ROWS = 1_000
"""The most changes in one step: a subscriber that has fallen behind catches up in steps of little memory."""

SHARED_BYTES_MAX = 8 * 1024**2


class ResumePoint(NamedTuple):
    """How far a subscriber is; `generation` counts rebuilds."""

    generation: int
    change: int

    def __str__(self) -> str:
        return f"{self.generation}-{self.change}"

    @classmethod
    def parse(cls, said: str) -> "ResumePoint":
        generation, dash, change = said.partition("-")
        if not dash or not (generation + change).isdecimal() or len(said) > 40:
            raise Invalid(f"{said[:80]!r} is not an event id; give the id of the last event, such as 0-17")
        return cls(int(generation), int(change))


class Step(NamedTuple):
    events: tuple[Event, ...]
    point: ResumePoint


def _size(step: Step) -> int:
    return sum(event.size for event in step.events) + 1


class ViewFeed:
    """All who follow one view with the same filter. Used on one event loop."""

    def __init__(
        self,
        stores: Stores,
        kept: ViewLocation,
        name: str,
        query: Callable[[Shape], Query],
        threads: ThreadPoolExecutor,
    ) -> None:
        self._stores, self._kept, self._name, self._query, self._threads = stores, kept, name, query, threads
        self._shared = Shared[Step](threads, _size, bytes_max=SHARED_BYTES_MAX)
        self._bell = Bell()
        self._head: ResumePoint | None = None
        self._looking: asyncio.Task[None] | None = None
        self._failure: HeadwaterError | None = None
        self._lock = threading.Lock()
        self._sent: set[str] = set()
        self._sent_since: ResumePoint | None = None
        self.subscribers = 0
        self.stopping = False

    @property
    def computed(self) -> int:
        return self._shared.computed

    async def begin(self, point: ResumePoint | None, *, snapshot: bool) -> Step:
        """The first step of a subscriber. Raises what keeps it from following at all."""
        head = self._head = await self._look()
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._watch())
        if point is None and not snapshot:
            return Step(tuple(in_parts("changes", "changes", [], str(head))), head)
        return await self._step(point)

    async def follow(self, step: Step) -> AsyncIterator[Event | None]:
        """From a step on; None where nothing has happened for a while."""
        point = step.point
        for event in step.events:
            yield event
        while not self.stopping:
            rung = self._bell.rung
            if self._failure is not None:
                yield end("gone", str(self._failure))
                return
            if point == self._head:
                if not await changed(rung):
                    yield None
                continue
            try:
                step = await self._step(point)
            except (HeadwaterError, Invalid) as error:
                yield end("behind" if isinstance(error, Invalid) else "gone", str(error))
                return
            for event in step.events:
                yield event
            if step.point == point:  # further than what was last seen; that is looked at again in a moment
                await changed(rung, pause_for(self.subscribers))
            point = step.point
        yield end("stopping", "the node stops; come back with the id of the last event")

    def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()

    def stop(self) -> None:
        self.stopping = True
        self._bell.ring()

    # -- looking ---------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(pause_for(self.subscribers))
            try:
                head = await self._look()
            except HeadwaterError as error:
                self._failure = error
                self._bell.ring()
                return
            if head != self._head:
                self._head = head
                self._bell.ring()

    async def _look(self) -> ResumePoint:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._mark)

    def _mark(self) -> ResumePoint:
        with self._stores.opened(self._kept) as store, store.snapshot(self._name) as snapshot:
            return ResumePoint(snapshot.mark.generation, snapshot.mark.change)

    async def _step(self, point: ResumePoint | None) -> Step:
        return await self._shared.get((point, self._head), lambda: self._compute(point))

    # -- on threads ------------------------------------------------------------------------------------------------

    def _compute(self, point: ResumePoint | None) -> Step:
        with self._stores.opened(self._kept) as store, store.snapshot(self._name) as snapshot:
            mark = snapshot.mark
            now = ResumePoint(mark.generation, mark.change)
            if (
                point is None
                or point.generation != now.generation
                or not mark.changes_from <= point.change <= now.change
                or snapshot.changed_since(point.change) > ROWS_MAX
            ):
                return self._all(snapshot, now)
            return self._changed(snapshot, point, now)

    def _all(self, snapshot: Snapshot, now: ResumePoint) -> Step:
        query = self._query(snapshot.shape)
        rows = snapshot.select(Query(query.where, query.order, ROWS_MAX + 1))
        if len(rows) > ROWS_MAX:
            raise Invalid(
                f"view {self._name} has more than {ROWS_MAX} rows to begin with; filter it with where, or begin with "
                "changes only: snapshot=false",
                status=422, name="TooManyRows",
            )  # fmt: skip
        key = snapshot.shape.key
        if query.where and len(self._sent) < ROWS_MAX:
            self._remember({_key_text({name: row[name] for name in key}) for row in rows}, now)
        return Step(tuple(in_parts("snapshot", "rows", [plain(row) for row in rows], str(now))), now)

    def _changed(self, snapshot: Snapshot, point: ResumePoint, now: ResumePoint) -> Step:
        until = snapshot.last_write_within(point.change, STEP_ROWS)
        numbered = snapshot.numbered_changes_after(point.change, until)
        rows_sent: list[tuple[int, dict[str, Any]]] = []
        query = self._query(snapshot.shape)
        fitting = None
        if query.where:
            key = snapshot.shape.key
            rows = snapshot.matching_since(point.change, query, until)
            fitting = {_key_text({name: row[name] for name in key}) for row in rows}
            known = self._known(point)
            self._remember(fitting, None)
        for number, (key_row, row) in numbered:
            if fitting is not None and (text := _key_text(key_row)) not in fitting:
                if known is not None and text not in known:
                    continue
                row = None
            one: dict[str, Any] = {"op": "delete" if row is None else "upsert", "key": plain(key_row)}
            rows_sent.append((number, one if row is None else {**one, "row": plain(row)}))
        events: list[Event] = []
        for number, group in groupby(rows_sent, key=lambda pair: pair[0]):
            events += in_parts(
                "changes", "changes", [one for _, one in group], str(ResumePoint(now.generation, number))
            )
        return Step(tuple(events), ResumePoint(now.generation, until))

    def _known(self, point: ResumePoint) -> set[str] | None:
        """Returns the keys that subscribers at this point may have received; None if that is not known."""
        since = self._sent_since
        return self._sent if since is not None and point >= since else None

    def _remember(self, keys: set[str], now: ResumePoint | None) -> None:
        with self._lock:
            if now is not None and self._sent_since is None:
                self._sent_since = now
            self._sent = self._sent | keys
            if len(self._sent) > 2 * ROWS_MAX:
                self._sent, self._sent_since = set(), None


def _key_text(key: object) -> str:
    return json.dumps(plain(key), sort_keys=True)
