"""A view as it changes: a snapshot, then what changed since the subscriber's own position.

Nothing is queued. A position is the number of a write, and the store can say what changed since; so a subscriber that
reads slowly is told less often, each key with what it is now, and holds no memory here.
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
from headwater.serve.live.feeds import Bell, Shared, heard, pause_for
from headwater.serve.stores import Stores
from headwater.views.places import Kept
from headwater.views.plain import plain
from headwater.views.query import Query
from headwater.views.shape import Shape
from headwater.views.store import Snapshot

ROWS_MAX = 20_000
"""Of a snapshot, and of changes that are told instead of a new snapshot."""

STEP_ROWS = 1_000
"""Changes that are told at once: who has fallen behind is told in steps, each of which holds little memory."""

SHARED_BYTES_MAX = 8 * 1024**2


class Place(NamedTuple):
    """How far a subscriber is; `generation` counts rebuilds."""

    generation: int
    change: int

    def __str__(self) -> str:
        return f"{self.generation}-{self.change}"

    @classmethod
    def parse(cls, said: str) -> "Place":
        generation, dash, change = said.partition("-")
        if not dash or not (generation + change).isdecimal() or len(said) > 40:
            raise Invalid(f"{said[:80]!r} is no place to resume at; say the id of the last event, such as 0-17")
        return cls(int(generation), int(change))


class Step(NamedTuple):
    events: tuple[Event, ...]
    place: Place


def _size(step: Step) -> int:
    return sum(event.size for event in step.events) + 1


class ViewFeed:
    """All who follow one view with the same filter. Used on one event loop."""

    def __init__(
        self, stores: Stores, kept: Kept, name: str, query: Callable[[Shape], Query], threads: ThreadPoolExecutor
    ) -> None:
        self._stores, self._kept, self._name, self._query, self._threads = stores, kept, name, query, threads
        self._shared = Shared[Step](threads, _size, bytes_max=SHARED_BYTES_MAX)
        self._bell = Bell()
        self._head: Place | None = None
        self._looking: asyncio.Task[None] | None = None
        self._failure: HeadwaterError | None = None
        self._lock = threading.Lock()
        self._told: set[str] = set()
        self._told_since: Place | None = None
        self.subscribers = 0
        self.stopping = False

    @property
    def computed(self) -> int:
        return self._shared.computed

    async def begin(self, place: Place | None, *, snapshot: bool) -> Step:
        """The first step of a subscriber. Raises what keeps it from following at all."""
        head = self._head = await self._look()
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._watch())
        if place is None and not snapshot:
            return Step(tuple(in_parts("changes", "changes", [], str(head))), head)
        return await self._step(place)

    async def follow(self, step: Step) -> AsyncIterator[Event | None]:
        """From a step on; None where nothing has happened for a while."""
        place = step.place
        for event in step.events:
            yield event
        while not self.stopping:
            rung = self._bell.rung
            if self._failure is not None:
                yield end("gone", str(self._failure))
                return
            if place == self._head:
                if not await heard(rung):
                    yield None
                continue
            try:
                step = await self._step(place)
            except (HeadwaterError, Invalid) as error:
                yield end("behind" if isinstance(error, Invalid) else "gone", str(error))
                return
            for event in step.events:
                yield event
            if step.place == place:  # further than what was last seen; that is looked at again in a moment
                await heard(rung, pause_for(self.subscribers))
            place = step.place
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

    async def _look(self) -> Place:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._mark)

    def _mark(self) -> Place:
        with self._stores.opened(self._kept) as store, store.snapshot(self._name) as snapshot:
            return Place(snapshot.mark.generation, snapshot.mark.change)

    async def _step(self, place: Place | None) -> Step:
        return await self._shared.get((place, self._head), lambda: self._compute(place))

    # -- on threads ------------------------------------------------------------------------------------------------

    def _compute(self, place: Place | None) -> Step:
        with self._stores.opened(self._kept) as store, store.snapshot(self._name) as snapshot:
            mark = snapshot.mark
            now = Place(mark.generation, mark.change)
            if (
                place is None
                or place.generation != now.generation
                or not mark.changes_from <= place.change <= now.change
                or snapshot.changed_since(place.change) > ROWS_MAX
            ):
                return self._all(snapshot, now)
            return self._changed(snapshot, place, now)

    def _all(self, snapshot: Snapshot, now: Place) -> Step:
        query = self._query(snapshot.shape)
        rows = snapshot.select(Query(query.where, query.order, ROWS_MAX + 1))
        if len(rows) > ROWS_MAX:
            raise Invalid(
                f"view {self._name} has more than {ROWS_MAX} rows to begin with; filter it with where, or begin with "
                "changes only: snapshot=false",
                status=422, name="TooManyRows",
            )  # fmt: skip
        key = snapshot.shape.key
        if query.where and len(self._told) < ROWS_MAX:
            self._remember({_key_text({name: row[name] for name in key}) for row in rows}, now)
        return Step(tuple(in_parts("snapshot", "rows", [plain(row) for row in rows], str(now))), now)

    def _changed(self, snapshot: Snapshot, place: Place, now: Place) -> Step:
        until = snapshot.last_write_within(place.change, STEP_ROWS)
        numbered = snapshot.numbered_changes_after(place.change, until)
        told: list[tuple[int, dict[str, Any]]] = []
        query = self._query(snapshot.shape)
        fitting = None
        if query.where:
            key = snapshot.shape.key
            rows = snapshot.matching_since(place.change, query, until)
            fitting = {_key_text({name: row[name] for name in key}) for row in rows}
            known = self._known(place)
            self._remember(fitting, None)
        for number, (key_row, row) in numbered:
            if fitting is not None and (text := _key_text(key_row)) not in fitting:
                if known is not None and text not in known:
                    continue
                row = None
            one: dict[str, Any] = {"op": "delete" if row is None else "upsert", "key": plain(key_row)}
            told.append((number, one if row is None else {**one, "row": plain(row)}))
        events: list[Event] = []
        for number, group in groupby(told, key=lambda pair: pair[0]):
            events += in_parts("changes", "changes", [one for _, one in group], str(Place(now.generation, number)))
        return Step(tuple(events), Place(now.generation, until))

    def _known(self, place: Place) -> set[str] | None:
        """Keys that subscribers who are this far may have been told of; None: nobody can say."""
        since = self._told_since
        return self._told if since is not None and place >= since else None

    def _remember(self, keys: set[str], now: Place | None) -> None:
        with self._lock:
            if now is not None and self._told_since is None:
                self._told_since = now
            self._told = self._told | keys
            if len(self._told) > 2 * ROWS_MAX:
                self._told, self._told_since = set(), None


def _key_text(key: object) -> str:
    return json.dumps(plain(key), sort_keys=True)
