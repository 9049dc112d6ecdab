"""All alerts of a node, each app by itself."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.alerts import supervisor as supervising
from headwater.alerts.definition import Alert, AppAlerts, Definitions, alerts_topic
from headwater.alerts.episodes import Rule
from headwater.alerts.notify import topic
from headwater.alerts.supervisor import Supervisor
from headwater.clock import SystemClock
from headwater.log.log import Log
from tests.alerts.written_views import ALERT, APP, VIEW, WrittenViews
from tests.waiting import patience

SAID = AppAlerts(APP, (Alert(ALERT, VIEW, Rule(), (topic("on-call"),)),))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with Log.open(tmp_path) as log:
        yield log


def damage(data: Path, app: str) -> None:
    file = data / "alerts" / app / "definition.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"{")


def wait_for_records(log: Log, wanted: str, number: int, seconds: float = 10) -> list[bytes | None]:
    deadline = patience() + seconds
    while True:
        found = [one.value for one in log.read(wanted)] if wanted in {one.name for one in log.topics()} else []
        if len(found) >= number or patience() > deadline:
            return found
        time.sleep(0.02)


def test_a_definition_that_cannot_be_read_does_not_stop_the_alerts_of_others(
    tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervising, "DEFINITIONS_SECONDS", 0.02)
    views = WrittenViews(tmp_path)
    Definitions(tmp_path).declare(SAID)
    damage(tmp_path, "broken")
    running = Supervisor(tmp_path, log, SystemClock())
    running.start()
    try:
        views.write([{"url": "/a", "p99": 2.0}])
        assert len(wait_for_records(log, "on-call", 1)) == 1
        first = running._running[APP]
        damage(tmp_path, APP)
        views.write([{"url": "/b", "p99": 2.0}])
        assert len(wait_for_records(log, "on-call", 2)) == 2
        assert running._running[APP] is first, "what it declared before keeps running"
        assert len(wait_for_records(log, alerts_topic(APP), 2)) == 2
    finally:
        running.stop()
