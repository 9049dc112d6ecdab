"""Captures that an app declares: made when it is run, and waited for until their topics are there."""

import argparse
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.cli.failure import Failure
from headwater.cli.output import note
from headwater.cli.stop_signals import Stopping
from headwater.clock import SystemClock

if TYPE_CHECKING:
    from headwater.flow.declare.capturing import CaptureDeclaration

LOOK_SECONDS = 0.2
LOOKS_EVERY_MS = 1_500


def define(arguments: argparse.Namespace, declared: "Mapping[str, CaptureDeclaration]") -> int:
    """Write down the captures that an app declares; those that are there already stay as they are. When that was."""
    now_ms = SystemClock().now_ms()
    if not declared:
        return now_ms
    from headwater.capture import declaration
    from headwater.capture.definition import Definitions
    from headwater.cli.capture import with_secret

    definitions = Definitions(arguments.data)
    own = {topic: one for topic, one in declared.items() if isinstance(one, declaration.CaptureDeclaration)}
    for definition in declaration.definitions_of(own).values():
        definitions.add(replace(definition, url=with_secret(definition.url)))
    for topics in declaration.apart(own):
        note(
            f"{', '.join(topics)} are tables of one database with captures of their own: a transaction over several "
            'may be seen in parts; give them one capture with name="..."'
        )
    return now_ms


def wait_for(
    arguments: argparse.Namespace,
    declared: "Mapping[str, CaptureDeclaration]",
    stopping: Stopping,
    *,
    since_ms: int,
    complete: bool,
    attempts_max: int | None = None,
) -> None:
    """Until each capture follows its table; if `complete`, until all that was there at a time is in its topic.

    Failure after so many attempts in a row at its database that failed; None: it is waited for as long as it takes.
    """
    from headwater.capture.definition import Definitions

    definitions, pause, shown = Definitions(arguments.data), threading.Event(), dict[str, str]()
    for name in sorted({one.name or topic for topic, one in declared.items()}):
        while True:
            stopping.check()
            status = definitions.status(name) or {}
            of_now = status.get("revision", 0) == definitions.get(name).revision
            fresh = of_now and int(str(status.get("at_ms", 0))) >= since_ms
            state, said = str(status.get("state", "")), str(status.get("said", ""))
            if fresh and state in ("refused", "gap"):
                raise Failure(f"capture {name} cannot run: {said}")
            if fresh and attempts_max is not None and int(str(status.get("failures", 0))) >= attempts_max:
                raise Failure(f"capture {name} has not begun after {attempts_max} attempts: {said}")
            if fresh and (reached(status, since_ms) if complete else state in ("copying", "streaming")):
                break
            if said and shown.get(name) != said:
                shown[name] = said
                note(f"capture {name} waits: {said}")
            pause.wait(LOOK_SECONDS)


def reached(status: Mapping[str, object], since_ms: int) -> bool:
    """Whether a capture has all that its database had at a time. It looks once a second how far that is.

    >>> reached({"state": "streaming", "at_ms": 9_000, "lag_seconds": 2.0}, 5_000)
    True
    >>> reached({"state": "streaming", "at_ms": 9_000, "lag_seconds": 5.0}, 5_000)
    False
    """
    lag_seconds = status.get("lag_seconds")
    if status.get("state") != "streaming" or not isinstance(lag_seconds, int | float):
        return False
    return int(str(status["at_ms"])) - 1000 * lag_seconds >= since_ms + LOOKS_EVERY_MS
