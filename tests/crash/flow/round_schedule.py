"""Which points strike in which round, and what bounds are lowered in it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from tests.crash.flow.bounds import LOWERED
from tests.crash.flow.moments import POINTS, REBUILD, RESTART, SHOP, WORKER

STRIKES_MAX = 3
ROUNDS_OF_A_TURN = sum(point.victim != WORKER for point in POINTS.values())
"""So many rounds give every point a turn, or hardly more."""


@dataclass(frozen=True)
class Strike:
    """A point, and how many times its moment comes before it kills."""

    name: str
    nth: int = 1

    def __str__(self) -> str:
        return f"{self.name}@{self.nth}"


@dataclass(frozen=True)
class Round:
    """What strikes an app, one after the other, while which bounds (bounds.py) are lowered. Without Spark, the driver
    does all of the work in its own process: what it plans, writes and commits, and in which order, is the same code."""

    strikes: Sequence[Strike]
    lowered: Sequence[str] = ()
    app: str = SHOP
    without_spark: bool = False

    def __post_init__(self) -> None:
        assert not self.without_spark or not any(POINTS[one.name].needs_spark for one in self.strikes), str(self)

    def __str__(self) -> str:
        engine = ["without Spark"] * self.without_spark
        return ", ".join([self.app, *map(str, self.strikes), *self.lowered, *engine])


def scheduled_rounds(random: Random, kills: Counter[str]) -> Iterator[Round]:
    """Every point, in any order, then all again in another. One whose moment did not come soon has another turn.

    `kills` counts by point, and is looked at after each round. Where only a worker dies the job goes on, so that
    another point may strike in the same round, if its moment is still to come then.
    """
    while True:
        waiting = _shuffled(random)
        while waiting:
            strikes = [waiting.pop(0)]
            app = random.choice(POINTS[strikes[0].name].apps)
            while _goes_on(strikes) and (another := _next(strikes, waiting, app)):
                waiting.remove(another)
                strikes.append(another)
            before = Counter(kills)
            yield Round(strikes, _lowered(random, strikes), app)
            waiting += [Strike(strike.name) for strike in strikes if kills[strike.name] == before[strike.name]]


def _goes_on(strikes: Sequence[Strike]) -> bool:
    """Spark gives up on a task that has died four times."""
    return POINTS[strikes[-1].name].victim == WORKER and len(strikes) < STRIKES_MAX


def _next(strikes: Sequence[Strike], waiting: Sequence[Strike], app: str) -> Strike | None:
    """The first whose moment can still come, in the same app and ways."""
    needed, spoiling = _needed(strikes), _spoiling(strikes)
    for one in waiting:
        fits = not _needed([one]) & spoiling and not _spoiling([one]) & needed
        if fits and app in POINTS[one.name].apps and POINTS[one.name].named not in (RESTART, REBUILD):
            return one
    return None


def _needed(strikes: Sequence[Strike]) -> set[str]:
    return {name for strike in strikes if (name := POINTS[strike.name].lowered) is not None}


def _spoiling(strikes: Sequence[Strike]) -> set[str]:
    return {name for strike in strikes for name in POINTS[strike.name].spoiled_by}


def _lowered(random: Random, strikes: Sequence[Strike]) -> list[str]:
    """Any, and those without which a moment does not come; but none that keeps one from coming."""
    chosen = [name for name in LOWERED if random.random() < 0.5 or name in _needed(strikes)]
    return [name for name in chosen if name not in _spoiling(strikes)]


def _shuffled(random: Random) -> list[Strike]:
    """At first there is nothing that could be built again."""
    names = list(POINTS)
    random.shuffle(names)
    too_early = {name for name in names[:3] if POINTS[name].named == REBUILD}
    in_turn = sorted(names, key=lambda name: name in too_early)
    return [Strike(name, random.randint(1, POINTS[name].most)) for name in in_turn]
