"""The daemon that Spark forks its workers from, ours with bad moments: a task that finds a flag there kills.

python -m tests.crash.flow.deadly_workers, with the blackboard's folder in HEADWATER_CRASH_BOARD
"""

import functools
import importlib
import inspect
import os
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.crash.flow.moments import IN_WORKERS, Blackboard, Moment

BOARD = "HEADWATER_CRASH_BOARD"


def make_deadly(board: Blackboard, name: str, moment: Moment) -> None:
    module, path = moment.place.split(":")
    *owners, last = path.split(".")
    owner: Any = functools.reduce(getattr, owners, importlib.import_module(module))
    original = getattr(owner, last)

    def strike_if_a_flag_is_there() -> None:
        found = board.take_flag(name)
        if found is not None:
            victim, point = found
            board.strike(point, victim or os.getpid())

    @functools.wraps(original)
    def deadly(*arguments: Any, **named: Any) -> Any:
        if not moment.after:
            strike_if_a_flag_is_there()
        answer = original(*arguments, **named)
        if moment.after:
            strike_if_a_flag_is_there()
        return answer

    @functools.wraps(original)
    def deadly_on_the_way(*arguments: Any, **named: Any) -> Iterator[Any]:
        for one in original(*arguments, **named):
            strike_if_a_flag_is_there()
            yield one

    setattr(owner, last, deadly_on_the_way if inspect.isgeneratorfunction(original) else deadly)


if __name__ == "__main__":
    for name, moment in IN_WORKERS.items():
        make_deadly(Blackboard(Path(os.environ[BOARD])), name, moment)
    runpy.run_module("headwater.flow.worker_daemon", run_name="__main__")
