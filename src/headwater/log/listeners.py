"""Callbacks of those who want to know that something changed; what, they look up themselves."""

import threading
from collections.abc import Callable


class Listeners:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: tuple[Callable[[], None], ...] = ()

    def add(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Returns how to leave again."""
        with self._lock:
            self._callbacks = (*self._callbacks, callback)

        def leave() -> None:
            with self._lock:
                self._callbacks = tuple(known for known in self._callbacks if known is not callback)

        return leave

    def notify(self) -> None:
        for callback in self._callbacks:
            callback()
