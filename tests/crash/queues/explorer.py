"""Crash a queue at calls to its disk, open what is left, and let its consumers go on to the last message.

The accidents are those of tests/crash/explorer.py: power cuts, kill -9, and a second cut in the middle of the recovery.
"""

from copy import deepcopy
from dataclasses import dataclass, field
from random import Random

from headwater.clock import ManualClock
from headwater.log.storage.simulated import Call, SimulatedDisk
from tests.crash.queues.books import Books
from tests.crash.queues.workload import QUEUE, Working, Workload, open_log

KILLS, SECOND_CUTS = 0.4, 0.25


@dataclass
class Exploration:
    points: int = 0
    anomalies: list[str] = field(default_factory=list)


class Explorer:
    """`every`: how many calls lie between two crashes; `anomalies_max`: how many are enough."""

    def __init__(self, seed: int, *, steps: int = 50, every: int = 1, anomalies_max: int = 2**31) -> None:
        self._seed, self._steps, self._every, self._anomalies_max = seed, steps, every, anomalies_max
        self._random = Random(seed ^ 0x0E0E)
        self._calls, self._recovery_calls = 0, 40
        self._disk = SimulatedDisk(ManualClock(), seed=seed)
        self._workload = Workload(self._disk, seed, ordered=seed % 2 == 0)
        self.result = Exploration()

    def run(self) -> Exploration:
        self._workload.before_call = self._before
        self._workload.run(self._steps)
        self.result.anomalies += [f"seed {self._seed}: {sentence}" for sentence in self._workload.anomalies]
        return self.result

    def _before(self, call: Call) -> None:
        self._calls += call.changing
        if not call.changing or self._calls % self._every or self._workload.working is None:
            return
        if len(self.result.anomalies) >= self._anomalies_max:
            return
        where = f"seed {self._seed}, call {call.number} ({call.operation} {call.path}) of {self._workload.step_name}"
        killed = self._random.random() < KILLS
        disk = self._disk.kill() if killed else self._disk.crash(self._random)
        where += ", kill -9" if killed else ", power cut"
        books = deepcopy(self._workload.books)
        second = self._second_cut(disk) if self._random.random() < SECOND_CUTS else []
        self._note(where, examine(disk, deepcopy(books), self._random, killed=killed))
        for cut in second:  # filled in while the first was opened
            self._note(f"{where}, second cut", examine(cut, deepcopy(books), self._random, killed=False))

    def _second_cut(self, disk: SimulatedDisk) -> list[SimulatedDisk]:
        copies: list[SimulatedDisk] = []
        chosen, changes = self._random.randint(1, self._recovery_calls), 0

        def before(call: Call) -> None:
            nonlocal changes
            changes += call.changing
            if call.changing and changes == chosen:
                copies.append(disk.crash(self._random))

        disk.on_call = before
        return copies

    def _note(self, where: str, sentences: list[str]) -> None:
        self.result.points += 1
        self.result.anomalies += [f"{where}: {sentence}" for sentence in sentences]


def examine(disk: SimulatedDisk, books: Books, random: Random, *, killed: bool) -> list[str]:
    """What is wrong with the queue on this disk once it is empty. A kill loses no count of attempts."""
    try:
        log = open_log(disk, deepcopy(disk.clock))  # time goes on here, and not in the workload
        if QUEUE not in {topic.name for topic in log.topics()}:
            return []  # it has hardly begun
        working = Working(log, books, random, exact=killed)
        disk.on_call = None
        return working.drain()
    except Exception as error:  # whatever escapes is what we are looking for
        return [f"{type(error).__name__}: {error}"]
