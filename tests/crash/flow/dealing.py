"""Which points strike in which round."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from tests.crash.flow.moments import POINTS, REBUILD, WORKER


@dataclass(frozen=True)
class Strike:
    """A point, and how many times its moment comes before it kills."""

    name: str
    nth: int = 1

    def __str__(self) -> str:
        return f"{self.name}@{self.nth}"


Round = Sequence[Strike]


def dealt(random: Random, kills: Counter[str]) -> Iterator[Round]:
    """Every point, in any order, then all again in another. One whose moment did not come soon has another turn.

    `kills` counts by point, and is looked at after each round. Where only a worker dies the job goes on, so that
    another point may strike in the same round.
    """
    while True:
        waiting = _shuffled(random)
        while waiting:
            strikes = [waiting.pop(0)]
            if POINTS[strikes[0].name].victim == WORKER and waiting:
                strikes.append(waiting.pop(0))
            before = Counter(kills)
            yield strikes
            waiting += [Strike(strike.name) for strike in strikes if kills[strike.name] == before[strike.name]]


def _shuffled(random: Random) -> list[Strike]:
    """At first there is nothing that could be built anew."""
    names = list(POINTS)
    random.shuffle(names)
    too_early = {name for name in names[:3] if POINTS[name].named == REBUILD}
    in_turn = sorted(names, key=lambda name: name in too_early)
    return [Strike(name, random.randint(1, POINTS[name].most)) for name in in_turn]
