"""Alerts that an app declares: written down when it is run, for the node that looks after them."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headwater.cli.failure import Failure

if TYPE_CHECKING:
    from headwater.alerts.notify import Target as Known
    from headwater.flow.declare.alerting import Target
    from headwater.flow.declare.app import App


def define_alerts(arguments: argparse.Namespace, app: "App") -> None:
    """What the app says now is all that counts: an alert that it no longer declares comes to its end."""
    from headwater.alerts.definition import Alert, AppAlerts, Definitions
    from headwater.alerts.episodes import Rule
    from headwater.alerts.failed_jobs import failed_jobs_alert

    definitions = Definitions(arguments.data)
    if not app.alerts and not app.notify and app.name not in definitions.apps():
        return
    alerts = []
    for one in app.alerts.values():
        targets = _targets(one.targets, f"alert {one.name} ({one.place})")
        rule = Rule(one.for_us // 1000, None if one.every_us is None else max(1, one.every_us // 1000))
        alerts.append(Alert(one.name, one.view, rule, targets, one.about, one.store))
    if app.notify:
        alerts.append(failed_jobs_alert(_targets(app.notify, f"app {app.name} ({app.place})")))
    definitions.declare(AppAlerts(app.name, tuple(alerts)))


def _targets(said: Sequence["Target"], who: str) -> "tuple[Known, ...]":
    from headwater.alerts.notify import Email, Topic, Webhook

    if wrong := [target for target in said if not isinstance(target, Webhook | Email | Topic)]:
        raise Failure(f"{who} cannot notify a {type(wrong[0]).__name__}; use hw.notify")
    return tuple(target for target in said if isinstance(target, Webhook | Email | Topic))
