"""An alert's view in Spark, and what the node makes of it."""

import json
from collections.abc import Callable
from typing import Any

import pytest

import headwater as hw
from headwater.alerts.definition import Alert, AppAlerts, alerts_topic, deliveries_topic
from headwater.alerts.episodes import Rule
from headwater.alerts.evaluation import Evaluation
from headwater.clock import ManualClock
from headwater.flow.declare.app import App
from headwater.flow.declare.topology.graph import plan
from headwater.flow.declare.topology.naming import alert_topics
from headwater.flow.run.app_tester import AppTester

NOBODY = [hw.notify.topic("on-call")]


def kitchen(limit: int = 8) -> App:
    app = hw.App("kitchen", shards=2)
    readings = app.stream("readings", "fridge string, celsius double, at timestamp", time="at")

    @app.view(key="fridge")
    def fridges() -> Any:
        return readings.latest("fridge")

    @app.view(key=["fridge", "window"])
    def minutes() -> Any:
        return readings.window(hw.tumbling("1 minute")).by("fridge").agg("count(*) as n", "max(celsius) as most")

    app.alert("too_warm", on=fridges, when=f"celsius > {limit}", notify=NOBODY)
    app.alert("warm_minute", on="minutes", when="most > 8", notify=NOBODY)
    return app


def reading(fridge: str, celsius: float, minute: int = 0) -> dict[str, Any]:
    return {"fridge": fridge, "celsius": celsius, "at": f"2026-01-01T12:{minute:02d}:00Z"}


class Watched:
    """The node's part, looked at when a test says so."""

    def __init__(self, tester: AppTester, clock: ManualClock) -> None:
        alerts = tuple(Alert(one.name, one.view, Rule(), tuple(NOBODY)) for one in tester.app.alerts.values())
        (tester.node.data / "alerts" / tester.app.name).mkdir(parents=True, exist_ok=True)
        self._log, self._topic, self._clock = tester.node.log, f"{tester.app.name}.alerts", clock
        self._evaluation = Evaluation(AppAlerts(tester.app.name, alerts), tester.node.data, self._log, clock)
        self._seen = self._log.partition(self._topic, 0).end_offset

    def look(self) -> set[tuple[str, str, str]]:
        self._clock.advance(1000)
        self._evaluation.look()
        events = [json.loads(one.value or b"") for one in self._log.read(self._topic, offset=self._seen)]
        self._seen += len(events)
        return {(one["alert"], one["state"], one["key"]["fridge"]) for one in events}


def test_alerts_follow_their_views_and_a_changed_condition(tester: Callable[[App], AppTester]) -> None:
    first, clock = tester(kitchen()), ManualClock()
    first.feed("readings", [reading("cellar", 11.5), reading("bar", 4.0)])
    first.run()
    assert [row["fridge"] for row in first.rows("too_warm")] == ["cellar"]
    watched = Watched(first, clock)
    assert watched.look() == {("too_warm", "raised", "cellar"), ("warm_minute", "raised", "cellar")}

    first.feed("readings", [reading("cellar", 5.0, 1), reading("bar", 9.0, 1)])
    first.run()
    assert watched.look() == {
        ("too_warm", "raised", "bar"), ("too_warm", "resolved", "cellar"),
        ("warm_minute", "raised", "bar"), ("warm_minute", "resolved", "cellar"),
    }  # fmt: skip
    assert first.prove("too_warm").different == 0

    state = first.node.data / "flows" / "kitchen" / "readings" / "state"
    assert sorted(path.name for path in state.iterdir()) == ["fridges", "minutes"], "alerts share that of their views"

    changed = tester(kitchen(limit=3))
    changed.run()
    assert [row["fridge"] for row in changed.rows("too_warm")] == ["bar", "cellar"]
    assert Watched(changed, clock).look() == {("too_warm", "raised", "cellar")}


def test_an_alert_on_what_is_no_view_is_refused() -> None:
    app = kitchen()
    with pytest.raises(hw.HeadwaterError, match="no view of the app"):
        app.alert("again", on="readings", when="true", notify=NOBODY)
    with pytest.raises(hw.HeadwaterError, match="no view of the app"):
        app.alert("again", on="too_warm", when="true", notify=NOBODY)


def test_an_alert_that_tells_nobody_is_refused() -> None:
    with pytest.raises(hw.HeadwaterError, match="has no target to notify"):
        kitchen().alert("again", on="fridges", when="true", notify=[])


@pytest.mark.parametrize("topic", alert_topics("kitchen"))
def test_an_alert_that_tells_the_topic_of_its_own_alerts_is_refused(topic: str) -> None:
    with pytest.raises(hw.HeadwaterError, match=rf"again .* notifies the topic {topic}"):
        kitchen().alert("again", on="fridges", when="true", notify=[hw.notify.topic(topic)])
    kitchen().alert("again", on="fridges", when="true", notify=[hw.notify.topic("shop.alerts")])


def test_the_topics_of_alerts_belong_to_the_node() -> None:
    app = kitchen()
    app.topic("kitchen.alerts")(lambda: app.stream("other", "n long"))
    with pytest.raises(hw.HeadwaterError, match="alerts are reported"):
        plan(app)
    assert alert_topics("kitchen") == (alerts_topic("kitchen"), deliveries_topic("kitchen"))


def test_an_alert_has_a_name_of_its_own() -> None:
    with pytest.raises(hw.HeadwaterError, match="declared at"):
        kitchen().alert("minutes", on="fridges", when="true", notify=NOBODY)
