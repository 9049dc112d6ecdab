"""The databases that views are in, opened as they are asked for and kept open."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.errors import HeadwaterError, StoreUnavailable, UnknownView
from headwater.serve.answers import Invalid
from headwater.views.locations import ViewLocation, view_locations
from headwater.views.store import ViewStore

OPEN_MAX = 4
"""Connections to one database: so many can ask at once."""

WAIT_SECONDS = 10.0


class Stores:
    """Safe to use from many threads."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self._lock = threading.Lock()
        self._pools: dict[ViewLocation, Pool] = {}

    def locations(self) -> list[ViewLocation]:
        return view_locations(self.data)

    def all(self) -> list[tuple[ViewLocation, str]]:
        """Every view. Those in a database that does not answer are left out: the others can be read all the same."""
        return self._all()[0]

    def _all(self) -> tuple[list[tuple[ViewLocation, str]], list[HeadwaterError]]:
        """And why some are left out."""
        found, failures = [], []
        for kept in self.locations():
            try:
                with self.opened(kept) as store:
                    found += [(kept, name) for name in store.views()]
            except HeadwaterError as error:
                failures.append(error)
        return found, failures

    def find(self, said: str) -> tuple[ViewLocation, str]:
        """The view that APP.VIEW or VIEW means. UnknownView; Invalid if several apps have one of this name.

        StoreUnavailable if it may be in a database that does not answer: the answer must not look as if the view were
        deleted.
        """
        views, failures = self._all()
        found = [(kept, name) for kept, name in views if said in (name, f"{kept.app}.{name}")]
        if not found and failures:
            raise failures[0]
        if not found:
            known = [f"{kept.app}.{name}" for kept, name in views]
            raise UnknownView(said[:200], str(self.data), known[:50])
        if len(found) > 1:
            names = ", ".join(f"{kept.app}.{name}" for kept, name in found)
            raise Invalid(
                f"several apps have a view {said[:80]}: {names}; name one of them", status=409, name="Unclear"
            )
        return found[0]

    @contextmanager
    def opened(self, kept: ViewLocation) -> Iterator[ViewStore]:
        with self._lock:
            pool = self._pools.setdefault(kept, Pool(kept))
        with pool.taken() as store:
            yield store

    def close(self) -> None:
        with self._lock:
            for pool in self._pools.values():
                pool.close()
            self._pools.clear()


class Pool:
    def __init__(self, kept: ViewLocation) -> None:
        self._kept = kept
        self._slots = threading.BoundedSemaphore(OPEN_MAX)
        self._free: list[ViewStore] = []

    @contextmanager
    def taken(self) -> Iterator[ViewStore]:
        if not self._slots.acquire(timeout=WAIT_SECONDS):
            raise StoreUnavailable(str(self._kept.where), "too many read it at once")
        try:
            store = self._free.pop() if self._free else self._kept.open()
            try:
                yield store
            except StoreUnavailable:
                store.close()
                raise
            except BaseException:
                self._free.append(store)
                raise
            self._free.append(store)
        finally:
            self._slots.release()

    def close(self) -> None:
        while self._free:
            self._free.pop().close()
