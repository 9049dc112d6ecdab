"""All alerts of a node: for each app a thread that evaluates, and one for each target that is notified.

The folder of definitions is the order: an app that is run again with other alerts is obeyed within a second.
"""

import logging
import threading
from pathlib import Path

from headwater.alerts.definition import AppAlerts, Definitions
from headwater.alerts.delivery import Deliverer, Delivery
from headwater.alerts.evaluation import Evaluation
from headwater.alerts.failed_jobs import Problems
from headwater.alerts.targets import Publish, delivery_to, publisher
from headwater.clock import Clock
from headwater.errors import HeadwaterError
from headwater.log.log import Log

_logger = logging.getLogger(__name__)

DEFINITIONS_SECONDS = 0.5
LOOK_SECONDS = 0.2


class Supervisor:
    """`start` returns at once; `stop` returns when everything that was under way has ended."""

    def __init__(
        self, data: Path, log: Log, clock: Clock, problems: Problems = lambda app: (), *, publish: Publish | None = None
    ) -> None:
        """`problems` returns the problems of an app's jobs. `publish` appends notifications to topics of another log
        than this one, in which the state of alerts is kept."""
        self._publish = publish or publisher(log)
        self._data, self._log, self._clock, self._problems = data, log, clock, problems
        self._definitions = Definitions(data)
        self._stopping = threading.Event()
        self._running: dict[str, RunningAlerts] = {}
        self._troubles: dict[str, str] = {}
        """The last error of each definition that cannot be read."""
        self._thread = threading.Thread(target=self._run, name="headwater-alerts", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    self._look()
                except (HeadwaterError, OSError):
                    _logger.exception("the definitions of alerts cannot be read; trying again")
                self._stopping.wait(DEFINITIONS_SECONDS)
        finally:
            for one in self._running.values():
                one.ask_to_stop()
            for one in self._running.values():
                one.join()

    def _look(self) -> None:
        wanted = self._wanted()
        for app, running in list(self._running.items()):
            if wanted.get(app) != running.said or not running.alive:
                running.ask_to_stop()
                running.join()
                del self._running[app]
        for app, said in wanted.items():
            if app not in self._running:
                self._running[app] = RunningAlerts(
                    said, self._data, self._log, self._clock, self._problems, self._publish
                )
                self._running[app].start()

    def _wanted(self) -> dict[str, AppAlerts]:
        """Returns the declarations of apps; of an app whose definition cannot be read, its previous one."""
        wanted: dict[str, AppAlerts] = {}
        for app in self._definitions.apps():
            try:
                wanted[app] = self._definitions.get(app)
                self._troubles.pop(app, None)
            except (HeadwaterError, OSError) as error:
                if app in self._running:
                    wanted[app] = self._running[app].said
                if str(error) != self._troubles.get(app):
                    _logger.warning("alerts of %s stay as they are: %s", app, error)
                self._troubles[app] = str(error)
        return wanted


class RunningAlerts:
    """The alerts of one app."""

    def __init__(
        self, said: AppAlerts, data: Path, log: Log, clock: Clock, problems: Problems, publish: Publish
    ) -> None:
        self.said, self._publish = said, publish
        self._data, self._log, self._clock, self._problems = data, log, clock, problems
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"headwater-alerts-{said.app}", daemon=True)
        self._deliverers: list[Deliverer] = []

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def ask_to_stop(self) -> None:
        self._stopping.set()
        for one in self._deliverers:
            one.ask_to_stop()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        evaluation: Evaluation | None = None
        try:
            # Targets first: who is new must not miss what the first look finds.
            self._begin_deliveries()
            evaluation = Evaluation(self.said, self._data, self._log, self._clock, self._problems)
            while not self._stopping.is_set():
                evaluation.look()
                if self._nothing_left(evaluation) and Definitions(self._data).forget(self.said):
                    break
                self._stopping.wait(LOOK_SECONDS)
        except (HeadwaterError, OSError, ValueError, KeyError):
            # The supervisor starts it again, from what the log has.
            _logger.exception("alerts of %s ended; they are restarted", self.said.app)
        finally:
            for one in self._deliverers:
                one.ask_to_stop()
            for one in self._deliverers:
                one.join()
            if evaluation is not None:
                evaluation.close()

    def _nothing_left(self, evaluation: Evaluation) -> bool:
        """Returns whether alerts were removed and all targets were notified of their end."""
        if self.said.alerts and not self.said.gone:
            return False
        ended = not any(evaluation.journal.known.get(one.name) for one in self.said.gone)
        return ended and all(one.is_done for one in self._deliverers)

    def _begin_deliveries(self) -> None:
        every = (*self.said.alerts, *self.said.gone)
        for name, target in self.said.targets().items():
            alerts = frozenset(one.name for one in every if name in {to.name for to in one.targets})
            deliver = delivery_to(target, self._publish, self._clock)
            self._deliverers.append(Deliverer(Delivery(self.said.app, target, alerts, deliver), self._log, self._clock))
        for one in self._deliverers:
            one.begin()
        for one in self._deliverers:
            if not self._stopping.is_set():
                one.start()
