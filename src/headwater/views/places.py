"""Where the apps of a data directory keep their views.

data/flows/<app>/app.json    a small file (small_file.py): what declares the app, and databases it keeps views in
"""

import logging
from dataclasses import dataclass
from pathlib import Path

from headwater.small_file import read_newest, small_files
from headwater.views.store import ViewStore, open_store

_logger = logging.getLogger(__name__)

VIEWS, FLOWS, APP_FILE = "views", "flows", "app.json"


@dataclass(frozen=True)
class KnownApp:
    """An app that has run on a data directory."""

    file: Path
    stores: tuple[str, ...]
    """Where it keeps views, if not beside the log; passwords are not among what is remembered."""
    views: tuple[str, ...] = ()
    """Those beside the log, if that is known."""


@dataclass(frozen=True)
class Kept:
    """Where an app may keep views."""

    app: str
    where: str | Path

    def open(self, *, read_only: bool = True) -> ViewStore:
        return open_store(self.where, self.app, read_only=read_only)


def known_apps(data: Path) -> dict[str, KnownApp]:
    """The apps that have run here, by name. One whose file nobody can read is left out, with a warning."""
    found = {}
    for place in small_files(data / FLOWS, f"*/{APP_FILE}"):
        try:
            said = read_newest(str(place), lambda path: Path(path).read_bytes()).content
            stores, views = (tuple(map(str, said.get(name, ()))) for name in ("stores", "views"))
            found[place.parent.name] = KnownApp(Path(said["file"]), stores, views)
        except FileNotFoundError:
            continue  # just removed
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            _logger.warning("%s is damaged (%s); the next run of the app writes it", place, error)
    return found


def places_of_views(data: Path, only: str = "") -> list[Kept]:
    """The data directory, and what apps that have run on it say; or only the store that was asked for."""
    named = {app: said.stores for app, said in known_apps(data).items()}
    here = {file.stem for file in (data / VIEWS).glob("*.sqlite")}
    if only:
        return [Kept(app, only) for app in sorted(here | named.keys())]
    own = [Kept(app, data) for app in sorted(here)]
    return own + [Kept(app, store) for app, stores in named.items() for store in stores]
