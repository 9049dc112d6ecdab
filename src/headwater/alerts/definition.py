"""The alerts of an app as the node is given them, and how they are: files that only their owner can read.

data/alerts/shop/
├── definition.json    what the app declares, with URLs and secrets: mode 0600
└── state.json         what is under way, and how far the topic shop.alerts was when that was written
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from headwater.alerts.episodes import Rule
from headwater.alerts.notify import Target, from_json, to_json

FOLDER, DEFINITION, STATE = "alerts", "definition.json", "state.json"


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

    def targets(self) -> dict[str, Target]:
        return {target.name: target for alert in self.alerts for target in alert.targets}


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

    def save(self, said: AppAlerts) -> None:
        folder = self.of(said.app)
        folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        alerts = [
            {**asdict(one), "rule": asdict(one.rule), "targets": [to_json(target) for target in one.targets]}
            for one in said.alerts
        ]
        write_privately(folder / DEFINITION, json.dumps({"app": said.app, "alerts": alerts}, indent=2).encode())

    def apps(self) -> list[str]:
        return sorted(one.parent.name for one in self.folder.glob(f"*/{DEFINITION}"))

    def get(self, app: str) -> AppAlerts:
        said = json.loads((self.of(app) / DEFINITION).read_text(encoding="utf-8"))
        return AppAlerts(said["app"], tuple(map(_alert, said["alerts"])))

    def of(self, app: str) -> Path:
        return self.folder / app

    def state(self, app: str) -> dict[str, Any] | None:
        """What was under way when it was last written; None if nothing was, or if it cannot be read."""
        try:
            found: dict[str, Any] = json.loads((self.of(app) / STATE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found

    def save_state(self, app: str, state: Mapping[str, Any]) -> None:
        write_privately(self.of(app) / STATE, json.dumps(state).encode())


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
