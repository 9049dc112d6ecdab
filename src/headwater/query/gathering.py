"""Catches views of several jobs at one position, while their jobs go on.

Views of one job in one store change together; views of two jobs are at one position only now and then. So snapshots are
held: of each job's views the last few states that came by. As soon as one of each fit together, they are what is read.
A barrier, where there is a log beside the views, makes the jobs end a batch at the same offsets, so that this happens.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from itertools import product
from threading import Event
from typing import NamedTuple

from headwater.clock import Clock
from headwater.query.catalogue import KnownView
from headwater.query.moment import joint
from headwater.views.locations import ViewLocation
from headwater.views.mark import Offsets
from headwater.views.store import Snapshot, ViewStore

HELD_MAX = 4
"""States of one job's views; a store keeps what they see until they are let go."""
LOOK_SECONDS = 0.004

PlaceBarrier = Callable[[frozenset[str]], None]
"""Asks jobs to end a batch where these topics end now."""
Found = Mapping[KnownView, Snapshot]


class Held(NamedTuple):
    found: Found
    open: ExitStack

    @property
    def positions(self) -> dict[str, Offsets]:
        return {known.name: snapshot.mark.position for known, snapshot in self.found.items()}


def by_job(found: Found) -> list[list[KnownView]]:
    """The views that are written together."""
    jobs: dict[tuple[ViewLocation, str | None], list[KnownView]] = {}
    for known, snapshot in found.items():
        jobs.setdefault((known.location, snapshot.mark.job), []).append(known)
    return list(jobs.values())


def gathered(jobs: Sequence[Sequence[KnownView]], clock: Clock, seconds: float, open: ExitStack) -> Found | None:
    """Snapshots of one position, which are there until `open` is closed; None if there was none in time."""
    passing: list[deque[Held]] = [deque() for _ in jobs]
    watching = [open.enter_context(closing(job[0].location.open())) for job in jobs]
    open.callback(_close, passing)
    end_ms = clock.elapsed_ms() + 1000 * seconds
    while True:
        came = [_look(*one) for one in zip(watching, jobs, passing, strict=True)]
        if any(came):
            for states in product(*passing):
                together = {name: at for held in states for name, at in held.positions.items()}
                if joint(together) is not None:
                    return {known: snapshot for held in states for known, snapshot in held.found.items()}
        if clock.elapsed_ms() >= end_ms:
            return None
        Event().wait(LOOK_SECONDS)


def _close(passing: Sequence[deque[Held]]) -> None:
    for states in passing:
        for held in states:
            held.open.close()


def _look(store: ViewStore, job: Sequence[KnownView], states: deque[Held]) -> bool:
    """Holds the state of a job's views, if it is another than the last."""
    with store.snapshots([known.view for known in job]) as now:
        if states and list(states[-1].positions.values()) == [one.mark.position for one in now]:
            return False
    states.append(_held(job))
    if len(states) > HELD_MAX:
        states.popleft().open.close()
    return True


def _held(job: Sequence[KnownView]) -> Held:
    """On a connection of its own: one that others share could see one moment at a time."""
    with ExitStack() as stack:
        store = job[0].location.open()
        stack.callback(store.close)
        snapshots = stack.enter_context(store.snapshots([known.view for known in job]))
        return Held(dict(zip(job, snapshots, strict=True)), stack.pop_all())
