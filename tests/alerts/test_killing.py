"""A node that is killed during deliveries: every alert is delivered at least once, each time under the same id."""

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from headwater.alerts.definition import Alert, AppAlerts, Definitions, alerts_topic
from headwater.alerts.episodes import NOTIFIED, Rule
from headwater.alerts.notify import webhook
from headwater.log.log import Log
from tests.alerts.written_views import ALERT, APP, VIEW, WrittenViews
from tests.waiting import patience
from tests.webhooks.target import WebhookTarget, webhook_target

KILLS = 3


def started(data: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.alerts.node_process", str(data)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def killed(process: subprocess.Popen[str], after_seconds: float = 0) -> None:
    time.sleep(after_seconds)
    process.kill()
    process.communicate()


def journal(data: Path) -> list[dict[str, object]]:
    with Log.open(data) as log:
        return [json.loads(record.value or b"") for record in log.read(alerts_topic(APP))]


def wait_until_told(target: WebhookTarget, ids: int, seconds: float) -> None:
    deadline = patience() + seconds
    while len(set(target.ids())) < ids and patience() < deadline:
        time.sleep(0.05)


@pytest.mark.slow
def test_a_killed_node_delivers_everything_at_least_once_and_each_time_under_the_same_id(tmp_path: Path) -> None:
    random, views = Random(7), WrittenViews(tmp_path)
    # Every seventh attempt fails, so that a kill falls between attempts too.
    answers: list[int | tuple[int, str, str]] = [200, 200, 500, 200, 200, 200, 200] * 100
    with webhook_target(*answers) as target:
        to = webhook(target.url, secret="s3cret", allow_private=True, timeout_seconds=2)
        Definitions(tmp_path).save(AppAlerts(APP, (Alert(ALERT, VIEW, Rule(), (to,)),)))
        for kill in range(KILLS):
            process = started(tmp_path)
            views.write([{"url": f"/{kill}.{number}", "p99": 2.0} for number in range(5)])
            wait_until_told(target, 5 * kill + random.randint(0, 4), 4)
            killed(process, after_seconds=random.random() * 0.3)
        process = started(tmp_path)
        # A condition that ends before an evaluation is not notified, and that is no loss.
        wait_until_told(target, 5 * KILLS, 20)
        killed(process)
        views.write([{"url": f"/{kill}.{number}", "_op": "d"} for kill in range(KILLS) for number in range(5)])
        process = started(tmp_path)
        wait_until_told(target, 2 * 5 * KILLS, 20)
        process.terminate()
        process.communicate()
        assert process.returncode == 0
    events = [one for one in journal(tmp_path) if one["state"] in NOTIFIED]
    ids = [one["id"] for one in events]
    assert Counter(ids).most_common(1)[0][1] == 1, "the flow of events has each once"
    assert Counter(one["state"] for one in events) == {"raised": 5 * KILLS, "resolved": 5 * KILLS}
    assert set(target.ids()) == set(ids), "every alert was delivered, and nothing else"
    bodies = {one.headers["webhook-id"]: one.body for one in target.taken}
    assert all(json.loads(body)["id"] == id for id, body in bodies.items())
