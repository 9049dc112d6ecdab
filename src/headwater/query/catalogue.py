"""What a statement can read: the views of all apps, by VIEW or APP.VIEW."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from difflib import get_close_matches
from typing import NamedTuple, Protocol

from headwater.errors import InvalidQuery
from headwater.views.locations import ViewLocation
from headwater.views.shape import Shape
from headwater.views.store import ViewStore


class Stores(Protocol):
    """The databases that views are in."""

    def all(self) -> list[tuple[ViewLocation, str]]: ...

    def opened(self, kept: ViewLocation) -> AbstractContextManager[ViewStore]: ...


Sees = Callable[[str], bool]
"""May a view be read by those who ask? By its name, APP.VIEW. One that may not is as one that there is not."""


def sees_all(view: str) -> bool:
    return True


class KnownView(NamedTuple):
    location: ViewLocation
    view: str
    shape: Shape

    @property
    def name(self) -> str:
        return f"{self.location.app}.{self.view}"


class ViewCatalogue:
    """As things are at one moment; shapes are looked up as they are asked for."""

    def __init__(self, stores: Stores, sees: Sees = sees_all) -> None:
        self._stores = stores
        self._known = [(kept, view) for kept, view in stores.all() if sees(f"{kept.app}.{view}")]

    def find(self, parts: Sequence[str]) -> KnownView:
        """Names are the same in small and capital letters, unless only the letters tell two views apart."""
        said = ".".join(parts)
        exact = [one for one in self._known if said in _names(*one)]
        found = exact or [one for one in self._known if said.lower() in {name.lower() for name in _names(*one)}]
        if not found:
            raise self._unknown(said)
        if len(found) > 1:
            names = ", ".join(f"{location.app}.{view}" for location, view in found)
            raise InvalidQuery(f"several apps have a view {said[:80]}: {names}", "Name one of them.")
        location, view = found[0]
        return self._described(location, view)

    def _described(self, location: ViewLocation, view: str) -> KnownView:
        with self._stores.opened(location) as store, store.snapshot(view) as snapshot:
            return KnownView(location, view, snapshot.shape)

    def _unknown(self, said: str) -> InvalidQuery:
        names = [f"{location.app}.{view}" for location, view in self._known]
        short = {name.rpartition(".")[2]: name for name in names}
        close = get_close_matches(said, [*short, *names], n=1)
        hint = f'Did you mean "{close[0]}"? ' if close else ""
        listed = f"There are {_listed(names)}." if names else 'There are no views yet: "headwater run APP.py".'
        return InvalidQuery(f'there is no view "{said[:80]}"', f"{hint}{listed}")


def _names(location: ViewLocation, view: str) -> tuple[str, str]:
    return view, f"{location.app}.{view}"


def _listed(names: Iterable[str]) -> str:
    some = sorted(names)
    return ", ".join(some[:20]) + (f" and {len(some) - 20} more" if len(some) > 20 else "")
