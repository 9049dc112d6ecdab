"""Being asked to end while Spark works: nothing is torn out of its hands.

A signal that raised in the middle of a call to the JVM would leave both sides of the connection at odds, and a long
report of that on the screen. So the first one is only noted, and a command checks for it between two units of work.
The second one ends everything at once, as any program.
"""

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopping:
    def __init__(self) -> None:
        self.asked_by = 0
        """The number of the signal; 0 if no signal arrived."""

    def listen(self) -> None:
        """From now on, whatever others have done about signals: starting Spark is such a thing."""
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                signal.signal(number, self._heard)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        if self.asked_by:
            raise KeyboardInterrupt
        self.asked_by = number

    def check(self) -> None:
        """SystemExit if it is time to end."""
        if self.asked_by:
            raise SystemExit(128 + self.asked_by)


@contextmanager
def listening() -> Iterator[Stopping]:
    """Within the block signals are noted; after it they have their previous handlers."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    stopping = Stopping()
    stopping.listen()
    try:
        with gateway_is_quiet():
            yield stopping
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def gateway_is_quiet() -> Iterator[None]:
    """What py4j logs is a traceback of something that is also raised, and then reported in a sentence."""
    own, root = logging.getLogger("py4j"), logging.getLogger()
    level = own.level
    own.setLevel(logging.CRITICAL + 1)
    root.addFilter(_not_of_the_gateway)
    try:
        yield
    finally:
        own.setLevel(level)
        root.removeFilter(_not_of_the_gateway)


def _not_of_the_gateway(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname
