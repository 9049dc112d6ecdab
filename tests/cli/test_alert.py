"""headwater alert, and /alerts: what alerts hold, from files that a node keeps, and how they go."""

import json
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from headwater.alerts.definition import Alert, AppAlerts, Definitions
from headwater.alerts.episodes import Rule
from headwater.alerts.evaluation import NO_LONGER
from headwater.alerts.notify import topic
from headwater.cli.main import main
from headwater.flow.commit.job_folder import JobFolder
from headwater.node import Node
from headwater.settings import HttpSettings, NodeSettings
from headwater.testing import running_node
from tests.alerts.written_views import ALERT, APP, VIEW, WrittenViews
from tests.waiting import wait_until


def test_without_alerts_it_says_how_one_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["alert", "list", "--data", str(tmp_path)]) == 0
    assert "app.alert(...)" in capsys.readouterr().out


def test_a_node_raises_delivers_and_shows_an_alert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Definitions(tmp_path).save(AppAlerts(APP, (Alert(ALERT, VIEW, Rule(), (topic("on-call"),)),)))
    views = WrittenViews(tmp_path)
    with running_node(tmp_path, NodeSettings(http=HttpSettings(), alerts=True)) as node:
        views.write([{"url": "/<b>", "p99": 2.0}])
        wait_until(lambda: bool(_delivered(node)), "the alert to be delivered")
        with urlopen(f"{node.http_url}/alerts/{APP}.{ALERT}") as answer:
            alert = json.load(answer)
        with urlopen(f"{node.http_url}/metrics") as answer:
            assert f'headwater_alert_raised_keys{{alert="{APP}.{ALERT}"}} 1' in answer.read().decode().splitlines()
        notified = _delivered(node)
    assert (alert["state"], alert["raised"], alert["keys"][0]["key"]) == ("raised", 1, {"url": "/<b>"})
    assert [one["state"] for one in notified] == ["raised"]
    assert main(["alert", "list", "--raised", "--data", str(tmp_path)]) == 0
    assert "url=/<b>" in capsys.readouterr().out


def _delivered(node: Node) -> list[dict[str, Any]]:
    """The topic is there before its first record is."""
    if "on-call" not in [one.name for one in node.log.topics()]:
        return []
    return [json.loads(record.value or b"") for record in node.log.read("on-call")]


ALERTS = AppAlerts(APP, (Alert(ALERT, VIEW, Rule(), (topic("on-call"),)),))


def test_alerts_of_a_removed_app_are_removed_and_their_targets_are_notified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    definitions, views = Definitions(tmp_path), WrittenViews(tmp_path)
    definitions.declare(ALERTS)
    views.write([{"url": "/a", "p99": 2.0}])
    with running_node(tmp_path, NodeSettings(http=HttpSettings(), alerts=True)) as node:
        wait_until(lambda: bool(_delivered(node)), "it is raised")
        assert main(["alert", "remove", APP, "--data", str(tmp_path)]) == 0
        assert "removed 1 alert of shop: too_slow" in capsys.readouterr().out
        wait_until(lambda: definitions.apps() == [], "nothing is left of it, secrets least of all")
        notified = [json.loads(record.value or b"") for record in node.log.read("on-call")]
    assert [(one["state"], one["why"]) for one in notified] == [("raised", ""), ("resolved", NO_LONGER)]
    assert not (tmp_path / "alerts" / APP).exists()


def test_alerts_of_an_app_that_runs_or_is_not_known_are_not_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Definitions(tmp_path).declare(ALERTS)
    assert main(["alert", "remove", "shopp", "--data", str(tmp_path)]) == 1
    assert "apps that have alerts: shop" in capsys.readouterr().err
    folder = JobFolder(tmp_path / "flows" / APP / "orders")
    folder.write("identity.json", {})
    folder.lock()
    assert main(["alert", "remove", APP, "--data", str(tmp_path)]) == 1
    assert "shop.orders of shop is running" in capsys.readouterr().err
    folder.unlock()
    assert Definitions(tmp_path).get(APP) == ALERTS
