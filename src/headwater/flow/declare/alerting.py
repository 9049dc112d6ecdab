"""What an app knows of an alert: which rows it is about, and whom to notify. The node notifies."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.checks.source_line import Place
from headwater.flow.declare.topology.naming import alert_topics

VIEW = "view"


class Target(Protocol):
    """Such as hw.notify.webhook(...) gives."""

    @property
    def name(self) -> str:
        """Identifies it, without anything that is secret."""


@dataclass(frozen=True)
class AlertDeclaration:
    name: str
    view: str
    for_us: int
    every_us: int | None
    targets: tuple[Target, ...]
    about: str
    place: Place
    store: str = field(default="", repr=False)


class Declared(Protocol):
    """An output, as far as it matters here."""

    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def of(self) -> str: ...

    @property
    def body(self) -> object: ...


AnyDeclared = TypeVar("AnyDeclared", bound=Declared)


def found_view(outputs: Iterable[AnyDeclared], on: object, alert: str, place: Place) -> AnyDeclared:
    """The view that an alert is on, by its name or its function."""
    views = [one for one in outputs if one.kind == VIEW and not one.of]
    for one in views:
        if one.name == on or one.body is on:
            return one
    said = on if isinstance(on, str) else getattr(on, "__name__", type(on).__name__)
    known = ", ".join(one.name for one in views) or "none yet"
    raise InvalidDeclaration(
        f"alert {alert} ({place}) is on {said}, which is no view of the app",
        f"Declare it below the view, which has to have @app.view(...). Views: {known}.",
    )


def checked_targets(app: str, alert: str, notify: Sequence[Target], place: Place) -> tuple[Target, ...]:
    targets = tuple(notify)
    hint = 'Write notify=[hw.notify.webhook("https://...")], or .email(...), or .topic(...).'
    if not targets:
        raise InvalidDeclaration(f"alert {alert} ({place}) has no target to notify", hint)
    if wrong := [one for one in targets if not isinstance(getattr(one, "name", None), str)]:
        raise InvalidDeclaration(f"alert {alert} ({place}) cannot notify a {type(wrong[0]).__name__}", hint)
    if own := [topic for one in targets if (topic := getattr(one, "topic", None)) in alert_topics(app)]:
        raise InvalidDeclaration(
            f"alert {alert} ({place}) notifies the topic {own[0]}, in which the node notes the app's alerts",
            "Read that topic as it is, or name another one.",
        )
    return targets
