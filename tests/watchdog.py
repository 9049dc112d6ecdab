"""Ends a test that hangs: one that makes no progress (tests/waiting.py) for as long as its mark `timeout` says.

The test fails with a sentence, and the stacks of all threads are printed; if that does not end it, the process ends.
"""

import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

from tests.waiting import LOOK_SECONDS, patience

LIMIT_SECONDS = 120.0
LAST_SECONDS = 60.0


class Watchdog:
    """Watches one test at a time, for the main thread of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._test = ""
        self._limit_s = LIMIT_SECONDS
        self._watching = False
        self._end_s: float | None = None
        """When the test hangs; it is set at the first look."""
        self._barked = False
        signal.signal(signal.SIGALRM, self._fail)
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    @contextmanager
    def watching(self, test: str, limit_s: float) -> Iterator[None]:
        with self._lock:
            self._test, self._limit_s, self._end_s, self._barked = test, limit_s, None, False
            self._watching = True
        try:
            yield
        finally:
            with self._lock:
                self._watching = False

    def _watch(self) -> None:
        while True:
            threading.Event().wait(2 * LOOK_SECONDS)  # most tests have ended by then, and cost no look
            with self._lock:
                if not self._watching:
                    continue
                now_s = patience()
                if self._end_s is None:
                    self._end_s = now_s + self._limit_s
                if now_s < self._end_s:
                    continue
                barked, self._barked, self._end_s = self._barked, True, now_s + LAST_SECONDS
            faulthandler.dump_traceback(file=sys.__stderr__ or 2, all_threads=True)
            if barked:
                os._exit(70)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)

    def _fail(self, number: int, frame: FrameType | None) -> None:
        pytest.fail(f"{self._test} hangs: no progress for {self._limit_s:g} s", pytrace=True)


def hear_interrupts() -> None:
    """A shell that starts tests in the background lets them ignore Ctrl-C, and all programs that they start inherit
    that: those would wait for ever for the one that a test sends them."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def limit_of(item: pytest.Item) -> float:
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0]) if mark is not None else LIMIT_SECONDS
