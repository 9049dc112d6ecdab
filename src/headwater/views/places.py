"""Where the apps of a data directory keep their views."""

import json
from dataclasses import dataclass
from pathlib import Path

from headwater.views.store import ViewStore, open_store

VIEWS = "views"
APP_FILES = "flows/*/app.json"


@dataclass(frozen=True)
class Kept:
    """Where an app may keep views."""

    app: str
    where: str | Path

    def open(self) -> ViewStore:
        return open_store(self.where, self.app, read_only=True)


def stores_named(data: Path) -> dict[str, tuple[str, ...]]:
    """By app that has run here: the databases it keeps views in, if not beside the log."""
    found = {}
    for place in sorted(data.glob(APP_FILES)):
        try:
            said = json.loads(place.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # just being written
        found[place.parent.name] = tuple(str(one) for one in said.get("stores", ()))
    return found


def places_of_views(data: Path, only: str = "") -> list[Kept]:
    """The data directory, and what apps that have run on it say; or only the store that was asked for."""
    named = stores_named(data)
    here = {file.stem for file in (data / VIEWS).glob("*.sqlite")}
    if only:
        return [Kept(app, only) for app in sorted(here | named.keys())]
    own = [Kept(app, data) for app in sorted(here)]
    return own + [Kept(app, store) for app, stores in named.items() for store in stores]
