"""An alert without a view: on jobs of an app that fail. `hw.App(..., notify=[...])` declares it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.alerts.definition import Alert
from headwater.alerts.episodes import Held, Row, Rule
from headwater.alerts.journal import key_text
from headwater.alerts.notify import Target

NAME = "failed-jobs"
"""No alert of an app can have it: their names are those of views."""
ABOUT = "jobs that fail"
SHOWN = ("kind", "text", "since_ms", "last_ms", "count", "next_attempt_ms")

Problems = Callable[[str], Iterable[Mapping[str, Any]]]
"""Returns the problems of an app's jobs, as GET /problems does."""


def failed_jobs_alert(targets: tuple[Target, ...]) -> Alert:
    return Alert(NAME, "", Rule(), targets, ABOUT)


@dataclass
class JobWatch:
    """The counterpart of `watching.Watch` for failed jobs."""

    app: str
    problems: Problems
    held: dict[str, Held] = field(default_factory=dict)
    passed: dict[str, Row] = field(default_factory=dict)
    seen: tuple[int, int] | None = None
    more: bool = False
    too_long: str = ""

    def look(self) -> bool:
        held = {}
        for one in self.problems(self.app):
            if one["kind"] != "warning":
                key = {"flow": one["flow"]}
                held[key_text(key)] = Held(key, {name: one.get(name) for name in SHOWN})
        changed = self.seen is None or held.keys() != self.held.keys()
        self.held = held
        self.seen = (0, (self.seen[1] if self.seen else 0) + changed)
        return changed
