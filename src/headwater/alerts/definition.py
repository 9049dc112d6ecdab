"""The alerts of an app as the node is given them, and how they are: files that only their owner can read.

data/alerts/
├── .lock                  held while a definition is changed
└── shop/
    ├── definition.json    what the app declares, with URLs and secrets: mode 0600
    └── state.json         what is under way, and how far the topic shop.alerts was when that was written
"""

import json
import logging
import os
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

_logger = logging.getLogger(__name__)

FOLDER, DEFINITION, STATE, LOCK = "alerts", "definition.json", "state.json", ".lock"


@dataclass(frozen=True)
class Alert:
    """One alert: the view that has the rows which meet its condition is named like it."""

    name: str
    view: str
    """What it looks at."""
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
    """No longer declared. What is under way of them comes to its end, which their targets have yet to hear."""

    def targets(self) -> dict[str, Target]:
        return {target.name: target for alert in (*self.alerts, *self.gone) for target in alert.targets}


def alerts_topic(app: str) -> str:
    """Where everything is noted that becomes of alerts.

    >>> alerts_topic("shop")
    'shop.alerts'
    """
    return f"{app}.alerts"


def deliveries_topic(app: str) -> str:
    """Where every attempt to tell somebody is noted.

    >>> deliveries_topic("shop")
    'shop.deliveries'
    """
    return f"{app}.deliveries"


class Definitions:
    """The alerts of a data directory."""

    def __init__(self, data: Path) -> None:
        self.folder = data / FOLDER

    def declare(self, said: AppAlerts) -> None:
        """What the app says now is all that counts; what it said before comes to its end."""
        with self._alone():
            names, before = {one.name for one in said.alerts}, self._before(said.app) or AppAlerts(said.app, ())
            self.save(replace(said, gone=tuple(one for one in (*before.alerts, *before.gone) if one.name not in names)))

    def forget(self, said: AppAlerts) -> bool:
        """What is gone, and the app with it if it declares nothing else; False if something else is declared by now."""
        with self._alone():
            if self._before(said.app) != said:
                return False
            if said.alerts:
                self.save(replace(said, gone=()))
            else:
                rmtree(self.of(said.app))
        return True

    def _before(self, app: str) -> AppAlerts | None:
        """What is declared until now; None if nothing is, or if nobody can read it."""
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
        write_privately(folder / DEFINITION, json.dumps(content, indent=2).encode())

    def apps(self) -> list[str]:
        return sorted(one.parent.name for one in self.folder.glob(f"*/{DEFINITION}"))

    def get(self, app: str) -> AppAlerts:
        """OSError if there is none, DamagedFile if it is not what was written."""
        path = self.of(app) / DEFINITION
        content = path.read_bytes()
        try:
            said = json.loads(content)
            return AppAlerts(said["app"], tuple(map(_alert, said["alerts"])), tuple(map(_alert, said.get("gone", []))))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            # Not what was read, which may be a secret.
            raise DamagedFile(str(path), f"it is no definition of alerts ({type(error).__name__})") from None

    def of(self, app: str) -> Path:
        return self.folder / app

    def state(self, app: str) -> dict[str, Any] | None:
        """What was under way when it was last written; None if nothing was, or if it cannot be read."""
        try:
            found: object = json.loads((self.of(app) / STATE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def save_state(self, app: str, state: Mapping[str, Any]) -> None:
        write_privately(self.of(app) / STATE, json.dumps(state).encode())


def _written(one: Alert) -> dict[str, Any]:
    return {**asdict(one), "rule": asdict(one.rule), "targets": [to_json(target) for target in one.targets]}


def _alert(said: Mapping[str, Any]) -> Alert:
    targets = tuple(from_json(one) for one in said["targets"])
    return Alert(said["name"], said["view"], Rule(**said["rule"]), targets, said["about"], said["store"])


def write_privately(path: Path, content: bytes) -> None:
    """Replace a file as a whole, durably, readable by its owner alone from its first byte on."""
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
