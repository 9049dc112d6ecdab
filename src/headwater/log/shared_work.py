"""One thread works on behalf of all who wait for the same: group commit."""

import threading
from collections.abc import Callable


class SharedWork:
    """Runs `work` in one thread at a time; a thread that calls meanwhile waits, and runs it again if needed."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._done = threading.Condition()
        self._running = False

    def until(self, reached: Callable[[], bool]) -> None:
        """Return once the work of this thread or another has led to `reached`, or raise what kept it from that.

        `reached` may raise to say that there is no use in waiting; it must take no lock that the work holds.
        """
        leading = False
        try:
            with self._done:
                while self._running and not reached():
                    self._done.wait()
                if reached():
                    return
                self._running = leading = True
            self._work()
        finally:
            if leading:
                with self._done:
                    self._running = False
                    self._done.notify_all()
