"""When a copy is disturbed, and which of its processes is killed then."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle, islice, product
from random import Random

from tests.crash.flow.moments import (
    DRIVER,
    IN_WORKERS,
    JVM,
    MOVE_TABLES,
    PROCESS,
    RENAME,
    TOPIC_SEND,
    WORKER,
    Blackboard,
    Moment,
    arm,
)
from tests.flow.large_outputs.processes import victims

PARQUET, TOPIC, POSTGRES, VIEW = KINDS = ("parquet", "topic", "postgres", "view")
STAGING, PUBLISHING = PHASES = ("staging", "publishing")
VICTIMS = (DRIVER, JVM, WORKER)

TABLES = {
    STAGING: (IN_WORKERS["chunk for a table"], IN_WORKERS["table staged"]),
    PUBLISHING: (Moment(MOVE_TABLES), Moment(MOVE_TABLES, after=True)),
}
MOMENTS: Mapping[str, Mapping[str, Sequence[Moment]]] = {
    PARQUET: {
        STAGING: (IN_WORKERS["chunk for a file"], IN_WORKERS["file staged"]),
        PUBLISHING: (Moment(RENAME), Moment(RENAME, after=True)),
    },
    TOPIC: {
        STAGING: (IN_WORKERS["chunk of records"], IN_WORKERS["records staged"]),
        PUBLISHING: (IN_WORKERS["partition encoded"], Moment(TOPIC_SEND), Moment(TOPIC_SEND, after=True)),
    },
    POSTGRES: TABLES,
    VIEW: TABLES,
}
"""By sink and phase."""


@dataclass(frozen=True)
class Strike:
    """A victim, and the moment at which it is killed; in the driver, the N-th time that it comes."""

    phase: str
    victim: str
    place: str
    after: bool
    nth: int

    def __str__(self) -> str:
        return f"{self.phase}, {self.victim}"

    @property
    def moment(self) -> Moment:
        return Moment(self.place, after=self.after)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def prepare(self, board: Blackboard) -> None:
        """In the driver's process: kill when the moment comes, here or in a worker."""
        flags = {moment: flag for flag, moment in IN_WORKERS.items()}
        if self.moment in flags:
            victim = 0 if self.victim == WORKER else victims(os.getpid(), self.victim)[0]
            arm(Moment(PROCESS), 1, lambda: board.raise_flag(flags[self.moment], str(self), victim))
        else:
            arm(self.moment, self.nth, lambda: board.strike(str(self), victims(os.getpid(), self.victim)[0]))


def strikes(kind: str, count: int, dice: Random) -> list[Strike]:
    """Each victim in each phase in turn, at any of the moments of the sink."""
    found = []
    for phase, victim in islice(cycle(product(PHASES, VICTIMS)), count):
        moment = dice.choice(MOMENTS[kind][phase])
        # Staged tables are moved once in a batch, and a driver may need no more than one for its share of the rows.
        nth = 1 if moment.place == MOVE_TABLES else dice.randint(1, 2)
        found.append(Strike(phase, victim, moment.place, moment.after, nth))
    return found
