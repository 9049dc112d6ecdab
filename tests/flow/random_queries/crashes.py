"""Ends a batch as a crash would, at one of the moments between which it writes something."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import pytest

from headwater.flow.commit.batch_processor import Processor
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.sinks.view import ViewSink
from headwater.flow.state.store import StateStore

MOMENTS: tuple[tuple[type, str], ...] = (
    (StateStore, "commit"), (StateStore, "publish"), (ViewSink, "publish"), (Processor, "_publish"),
    (Processor, "_request_wakeup"), (JobFolder, "finish"), (Processor, "_commit_offsets"), (Processor, "_clean"),
)  # fmt: skip
"""Each is there before the call, and after it; most are called once for every operator or view."""


class Crash(BaseException):
    """Not caught by what catches errors."""


@contextmanager
def crash_at(number: int) -> Iterator[None]:
    """Raises Crash at the moment with this number, from 1 on, if there are so many; and ends there."""
    left = [number]

    def count() -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Crash

    def counted(call: Any) -> Any:
        @wraps(call)
        def made(*given: Any, **more: Any) -> Any:
            count()
            found = call(*given, **more)
            count()
            return found

        return made

    with pytest.MonkeyPatch.context() as patch:
        for kind, name in MOMENTS:
            patch.setattr(kind, name, counted(getattr(kind, name)))
        try:
            yield
        except Crash:
            return
        except BaseException:  # what it was wrapped in on its way
            if left[0] > 0:
                raise
