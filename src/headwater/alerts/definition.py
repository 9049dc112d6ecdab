"""The alerts of an app as the node is given them, and how they are: files that only their owner can read.

data/alerts/
├── .lock                  held while a definition is changed
└── shop/
    ├── definition.json    what the app declares, with URLs and secrets: mode 0600
    └── state.json         what is under way, and how far the topic shop.alerts was when that was written

Both are small files (small_file.py): each has a checksum and a copy.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from fcntl import LOCK_EX, flock
from pathlib import Path
from shutil import rmtree
from typing import Any

from headwater.alerts.episodes import Rule
from headwater.alerts.notify import Target, from_json, to_json
from headwater.errors import DamagedFile
from headwater.log.storage import LocalStorage, delete_small_file, read_small_file, write_small_file
from headwater.small_file import small_files

_logger = logging.getLogger(__name__)

FOLDER, DEFINITION, STATE, LOCK = "alerts", "definition.json", "state.json", ".lock"


@dataclass(frozen=True)
class Alert:
    """One alert: the view that has the rows which meet its condition is named like it."""

    name: str
    view: str
    """The view that the alert evaluates."""
    rule: Rule
    targets: tuple[Target, ...]
    about: str = ""
    store: str = field(default="", repr=False)
    """Where the app keeps these views; "": beside the log."""


@dataclass(frozen=True)
class AppAlerts:
    app: str
    alerts: tuple[Alert, ...]
    gone: tuple[Alert, ...] = ()
    """Alerts that are no longer declared.

    Their open episodes are resolved, and their targets are still notified of that.
    """

    def targets(self) -> dict[str, Target]:
        return {target.name: target for alert in (*self.alerts, *self.gone) for target in alert.targets}


def alerts_topic(app: str) -> str:
    """Where everything is noted that becomes of alerts.

    >>> alerts_topic("shop")
    'shop.alerts'
    """
    return f"{app}.alerts"


def deliveries_topic(app: str) -> str:
    """Returns the topic that records every delivery attempt.

    >>> deliveries_topic("shop")
    'shop.deliveries'
    """
    return f"{app}.deliveries"


class Definitions:
    """The alerts of a data directory."""

    def __init__(self, data: Path) -> None:
        self.folder = data / FOLDER
        self._storage = LocalStorage(self.folder, private=True)

    def declare(self, said: AppAlerts) -> None:
        """Replaces the app's declaration; alerts that it no longer has are resolved."""
        with self._alone():
            names, before = {one.name for one in said.alerts}, self._before(said.app) or AppAlerts(said.app, ())
            self.save(replace(said, gone=tuple(one for one in (*before.alerts, *before.gone) if one.name not in names)))

    def forget(self, said: AppAlerts) -> bool:
        """Forgets alerts that are no longer declared, and an app without others; False if its declaration changed."""
        with self._alone():
            if self._before(said.app) != said:
                return False
            if said.alerts:
                self.save(replace(said, gone=()))
            else:
                delete_small_file(self._storage, f"{said.app}/{DEFINITION}")
                rmtree(self.of(said.app))
        return True

    def _before(self, app: str) -> AppAlerts | None:
        """Returns the current declaration; None if there is none, or if it cannot be read."""
        try:
            return self.get(app)
        except FileNotFoundError:
            return None
        except DamagedFile as damaged:
            _logger.warning("%s", damaged)
            return None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / LOCK).open("ab") as lock:
            flock(lock, LOCK_EX)
            yield

    def save(self, said: AppAlerts) -> None:
        folder = self.of(said.app)
        folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        content = {"app": said.app, "alerts": list(map(_written, said.alerts)), "gone": list(map(_written, said.gone))}
        write_small_file(self._storage, f"{said.app}/{DEFINITION}", content)

    def apps(self) -> list[str]:
        return sorted(one.parent.name for one in small_files(self.folder, f"*/{DEFINITION}"))

    def get(self, app: str) -> AppAlerts:
        """OSError if there is none, DamagedFile if it is not what was written."""
        path = self.of(app) / DEFINITION
        try:
            said = read_small_file(self._storage, f"{app}/{DEFINITION}").content
            return AppAlerts(said["app"], tuple(map(_alert, said["alerts"])), tuple(map(_alert, said.get("gone", []))))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            # Not what was read, which may be a secret.
            raise DamagedFile(str(path), f"it is no definition of alerts ({type(error).__name__})") from None
        except DamagedFile as error:
            raise DamagedFile(str(path), error.why) from None

    def of(self, app: str) -> Path:
        return self.folder / app

    def state(self, app: str) -> dict[str, Any] | None:
        """Returns the open episodes of the last save; None if there were none, or if they cannot be read."""
        try:
            found = read_small_file(self._storage, f"{app}/{STATE}").content
        except FileNotFoundError:
            return None
        except DamagedFile as error:
            _logger.warning("%s is damaged (%s); it is made again from the topic", self.of(app) / STATE, error.why)
            return None
        return found if isinstance(found, dict) else None

    def save_state(self, app: str, state: Mapping[str, Any]) -> None:
        write_small_file(self._storage, f"{app}/{STATE}", dict(state))


def _written(one: Alert) -> dict[str, Any]:
    return {**asdict(one), "rule": asdict(one.rule), "targets": [to_json(target) for target in one.targets]}


def _alert(said: Mapping[str, Any]) -> Alert:
    targets = tuple(from_json(one) for one in said["targets"])
    return Alert(said["name"], said["view"], Rule(**said["rule"]), targets, said["about"], said["store"])
