"""The stores in which the apps of a data directory keep their views.

data/flows/<app>/app.json    a small file (small_file.py): what declares the app, and databases it keeps views in
"""

import logging
from dataclasses import dataclass
from pathlib import Path

from headwater.small_file import read_newest, small_files
from headwater.views.own_postgres import MARK
from headwater.views.store import ViewStore, open_store

_logger = logging.getLogger(__name__)

VIEWS, FLOWS, APP_FILE = "views", "flows", "app.json"


@dataclass(frozen=True)
class KnownApp:
    """An app that has run on a data directory."""

    file: Path
    stores: tuple[str, ...]
    """URLs of stores other than the data directory, without passwords."""
    views: tuple[str, ...] = ()
    """Those beside the log, if that is known."""
    store: str = ""
    """The value of --store of the run, without a password."""


@dataclass(frozen=True)
class ViewLocation:
    """A store in which an app may keep views."""

    app: str
    where: str | Path

    def open(self, *, read_only: bool = True) -> ViewStore:
        return open_store(self.where, self.app, read_only=read_only)


def known_apps(data: Path) -> dict[str, KnownApp]:
    """The apps that have run here, by name. An app whose file cannot be read is left out, with a warning."""
    found = {}
    for file in small_files(data / FLOWS, f"*/{APP_FILE}"):
        try:
            said = read_newest(str(file), lambda path: Path(path).read_bytes()).content
            stores, views = (tuple(map(str, said.get(name, ()))) for name in ("stores", "views"))
            found[file.parent.name] = KnownApp(Path(said["file"]), stores, views, str(said.get("store", "")))
        except FileNotFoundError:
            continue  # just removed
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            _logger.warning("%s is damaged (%s); the next run of the app writes it", file, error)
    return found


def view_locations(data: Path, only: str = "") -> list[ViewLocation]:
    """Returns the data directory's own stores and those that its apps name; or only the store `only`."""
    named = {app: said.stores for app, said in known_apps(data).items()}
    here = {file.stem for ending in (".sqlite", MARK) for file in (data / VIEWS).glob(f"*{ending}")}
    if only:
        return [ViewLocation(app, only) for app in sorted(here | named.keys())]
    own = [ViewLocation(app, data) for app in sorted(here)]
    return own + [ViewLocation(app, store) for app, stores in named.items() for store in stores]
