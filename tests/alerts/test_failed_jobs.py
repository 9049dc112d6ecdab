"""The app's targets are notified of jobs that fail, and that they run again."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.alerts.definition import AppAlerts, Definitions
from headwater.alerts.delivery import Deliverer, Delivery
from headwater.alerts.evaluation import Evaluation, alert_reports
from headwater.alerts.failed_jobs import NAME, failed_jobs_alert
from headwater.alerts.notify import topic
from headwater.alerts.targets import delivery_to, publisher
from headwater.clock import ManualClock
from headwater.log.log import Log

TARGET = topic("on-call")
SAID = AppAlerts("shop", (failed_jobs_alert((TARGET,)),))
FAILING = {"flow": "shop.orders", "kind": "retrying", "text": "the database does not answer", "since_ms": 5, "count": 1}
WARNING = {"flow": "shop.orders", "kind": "warning", "text": "topic ordres was made", "since_ms": 5}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with Log.open(tmp_path) as log:
        yield log


def test_a_target_is_notified_once_that_a_job_fails_and_once_that_it_runs_again(tmp_path: Path, log: Log) -> None:
    problems: list[dict[str, Any]] = [WARNING]
    clock = ManualClock()
    Definitions(tmp_path).declare(SAID)
    deliverer = Deliverer(
        Delivery("shop", TARGET, frozenset({NAME}), delivery_to(TARGET, publisher(log), clock)), log, clock
    )
    deliverer.begin()
    evaluation = Evaluation(SAID, tmp_path, log, clock, lambda app: problems if app == "shop" else [])
    evaluation.look()
    for found in ([FAILING, WARNING], [{**FAILING, "kind": "failed", "count": 4}], [WARNING], []):
        problems[:] = found
        clock.advance(1000)
        evaluation.look()
        evaluation.look()
    deliverer.deliver_all()
    evaluation.close()
    notified = [json.loads(record.value or b"") for record in log.read("on-call")]
    assert [(one["state"], one["key"]) for one in notified] == [
        ("raised", {"flow": "shop.orders"}),
        ("resolved", {"flow": "shop.orders"}),
    ]
    assert notified[0]["row"]["text"] == "the database does not answer"
    assert "the database does not answer" in notified[0]["text"]
    (listed,) = alert_reports(tmp_path)
    assert (listed["name"], listed["state"]) == ("shop.failed-jobs", "quiet")


def test_another_node_knows_what_was_notified_before(tmp_path: Path, log: Log) -> None:
    Definitions(tmp_path).declare(SAID)
    for _ in range(2):
        evaluation = Evaluation(SAID, tmp_path, log, ManualClock(), lambda app: [FAILING])
        evaluation.look()
        evaluation.close()
    assert len(list(log.read("shop.alerts"))) == 1
