"""The alerts of one app, looked at again and again: what holds, what becomes of it, and the file that says so."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headwater.alerts.definition import Alert, AppAlerts, Definitions
from headwater.alerts.episodes import Episode, Row, State, end, step
from headwater.alerts.failed_jobs import NAME as FAILED_JOBS
from headwater.alerts.failed_jobs import JobWatch, Problems
from headwater.alerts.journal import Journal, Noted
from headwater.alerts.watching import KEY_TEXT_MAX, KEYS_MAX, Watch
from headwater.clock import Clock
from headwater.errors import DamagedFile, FlowError, UnknownView
from headwater.log.log import Log
from headwater.views.store import ViewStore, open_store

_logger = logging.getLogger(__name__)

SHOWN_MAX = 100
NO_LONGER = "the alert is no longer declared"
QUIET = "quiet"


class Evaluation:
    """Used from one thread; `look` may be called as often as one likes."""

    def __init__(
        self, said: AppAlerts, data: Path, log: Log, clock: Clock, problems: Problems = lambda app: ()
    ) -> None:
        """`problems` returns the problems of an app's jobs."""
        self._said, self._clock, self._problems = said, clock, problems
        self._definitions = Definitions(data)
        self._stores: dict[str, ViewStore] = {}
        for alert in said.alerts:
            if alert.name != FAILED_JOBS and alert.store not in self._stores:
                self._stores[alert.store] = open_store(alert.store or data, said.app, read_only=True, clock=clock)
        self.journal = Journal(log, said.app, self._definitions)
        self._watches = {one.name: self._watch(one) for one in said.alerts}
        self._troubles: dict[str, str] = {}
        self._saved: dict[str, Any] | None = None

    def look(self) -> None:
        """Note what has happened since the last look. What cannot be read now is left as it was."""
        now_ms = self._clock.now_ms()
        self.journal.write(self._forgotten(now_ms))
        for alert in self._said.alerts:
            self.journal.write(self._events(alert, now_ms))
        self._save()

    def _watch(self, alert: Alert) -> Watch | JobWatch:
        if alert.name == FAILED_JOBS:
            return JobWatch(self._said.app, self._problems)

        def under_way() -> list[Row]:
            return [one.key for one in self.journal.known.get(alert.name, {}).values()]

        seen = self.journal.seen.get(alert.name)
        return Watch(self._stores[alert.store], alert.name, alert.view, seen, under_way)

    def _looked(self, watch: Watch | JobWatch) -> tuple[bool, str]:
        """Whether it could look, and what is to be said of it."""
        try:
            watch.look()
        except UnknownView:
            return False, "its view is not there yet; run the app"
        except FlowError as error:
            return False, str(error)
        if watch.more:
            return True, f"more than {KEYS_MAX:,} keys meet the condition; those beyond are not notified"
        if watch.too_long:
            return (
                True,
                f"a key is longer than {KEY_TEXT_MAX:,} characters, and is not notified: {watch.too_long}",
            )
        return True, ""

    def _events(self, alert: Alert, now_ms: int) -> Iterator[Noted]:
        watch = self._watches[alert.name]
        looked, trouble = self._looked(watch)
        if trouble and trouble != self._troubles.get(alert.name):
            _logger.warning("alert %s.%s: %s", self._said.app, alert.name, trouble)
        self._troubles[alert.name] = trouble
        # Time alone raises nothing: who cannot look does not know that a condition still holds.
        if not looked or watch.seen is None:
            return
        known = self.journal.known.get(alert.name, {})
        seen = f"{alert.name} {watch.seen[0]}.{watch.seen[1]}"
        for episode in step(alert.rule, known, watch.held, now_ms=now_ms, seen=seen, passed=watch.passed):
            yield Noted(alert.name, episode, watch.seen)
        self.journal.seen[alert.name] = watch.seen

    def _forgotten(self, now_ms: int) -> list[Noted]:
        """Ends the open episodes of alerts that are no longer declared."""
        ended = [name for name in self.journal.known if name not in self._watches]
        return [Noted(name, end(one, now_ms, NO_LONGER)) for name in ended for one in self.journal.known[name].values()]

    def _save(self) -> None:
        status = {one.name: self._status(one) for one in self._said.alerts}
        generations = {name: generation for name, (generation, _) in self.journal.seen.items()}
        now = {"end": self.journal.end, "status": status, "generations": generations}
        if now != self._saved:
            self.journal.save(status)
            self._saved = now

    def _status(self, alert: Alert) -> dict[str, Any]:
        known = self.journal.known.get(alert.name, {})
        raised = [one for one in known.values() if one.state != State.PENDING]
        shown = sorted(known.values(), key=lambda one: (one.state == State.PENDING, one.since_ms))[:SHOWN_MAX]
        return {
            "state": "raised" if raised else "pending" if known else QUIET,
            "raised": len(raised),
            "pending": len(known) - len(raised),
            "keys": [_shown(one) for one in shown],
            "said": self._troubles.get(alert.name, ""),
        }

    def close(self) -> None:
        for store in self._stores.values():
            store.close()


def _shown(episode: Episode) -> dict[str, Any]:
    return {
        "id": episode.id,
        "key": dict(episode.key),
        "state": str(episode.state),
        "row": dict(episode.row),
        "since_ms": episode.since_ms,
        "raised_ms": episode.raised_ms,
        "notifications": episode.number,
    }


def alert_reports(data: Path) -> list[dict[str, Any]]:
    """All alerts of a data directory and how they are, by name; nothing in it is secret."""
    definitions, found = Definitions(data), []
    for app in definitions.apps():
        try:
            said = definitions.get(app)
        except (OSError, DamagedFile):
            continue  # the node says why
        status = (definitions.state(app) or {}).get("status", {})
        for one in said.alerts:
            rule = {"for_ms": one.rule.hold_ms, "every_ms": one.rule.repeat_ms}
            words = {"name": f"{app}.{one.name}", "app": app, "alert": one.name, "view": one.view, "about": one.about}
            targets = [target.name for target in one.targets]
            unknown = {"state": "waiting", "raised": 0, "pending": 0, "keys": [], "said": "no node looks at it yet"}
            found.append({**words, **rule, "targets": targets, **status.get(one.name, unknown)})
    return found
