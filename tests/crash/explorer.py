"""Crash a log at every call it makes to its disk, open what is left, and hold it against what was promised.

The workload runs once per seed; before each call that changes the disk, a copy is taken as the accident would leave it,
and looked at on the spot, while the workload waits inside the call. Accidents:

    power cut        only what was synced is certain
    kill -9          everything written is there, and still not durable
    second cut       a power cut in the middle of the recovery from the first
    cut afterwards   recovery ended and work continued: nothing that was shown since may be lost after a power cut
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from random import Random

from headwater.clock import ManualClock
from headwater.errors import HeadwaterError
from headwater.log.log import Log
from headwater.log.storage.simulated import CHANGING_OPERATIONS, Call, SimulatedDisk
from headwater.record import Record, TopicPartition
from tests.crash.promises import Promises, Strength
from tests.crash.verify import verify
from tests.crash.workload import LOOSE, Starts, Workload, open_log

SECOND_CUTS = 0.3
CUTS_AFTERWARDS = 0.3
KILLS = 0.25


@dataclass
class Exploration:
    points: int = 0
    anomalies: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Focus:
    """Where to look harder: only at some operations on some paths, several times each, until enough was found."""

    operations: Collection[str] = CHANGING_OPERATIONS
    path_part: str = ""
    times: int = 1
    anomalies_max: int = 2**31

    def covers(self, call: Call) -> bool:
        return call.operation in self.operations and self.path_part in call.path


class Explorer:
    def __init__(self, seed: int, *, steps: int = 60, every: int = 1, focus: "Focus | None" = None) -> None:
        """Crash at every `every`-th call."""
        self._seed, self._steps, self._every, self._focus = seed, steps, every, focus or Focus()
        self._random = Random(seed ^ 0x5EED)
        self._changing_calls = 0
        self._recovery_calls = 40
        self._workload: Workload | None = None
        self.result = Exploration()

    def run(self) -> Exploration:
        course = self._healthy_course()
        disk = SimulatedDisk(ManualClock(), seed=self._seed)
        self._workload = Workload(disk, self._seed, course=course)
        self._workload.before_call = lambda call: self._before(call, disk)
        self._workload.run(self._steps)
        self.result.anomalies += [f"seed {self._seed}: {sentence}" for sentence in self._workload.anomalies]
        self.result.anomalies += [f"seed {self._seed}: refused: {error!r}" for error in self._workload.refusals]
        return self.result

    def _healthy_course(self) -> list[Starts]:
        workload = Workload(SimulatedDisk(ManualClock(), seed=self._seed), self._seed)
        workload.run(self._steps)
        return workload.course

    def _before(self, call: Call, disk: SimulatedDisk) -> None:
        self._changing_calls += call.changing
        if not call.changing or self._changing_calls % self._every:
            return
        if len(self.result.anomalies) >= self._focus.anomalies_max or not self._focus.covers(call):
            return
        for _ in range(self._focus.times):
            self._crash(call, disk)

    def _crash(self, call: Call, disk: SimulatedDisk) -> None:
        assert self._workload is not None
        killed = self._random.random() < KILLS
        found = disk.kill() if killed else disk.crash(self._random)
        step = self._workload.step_name
        where = f"seed {self._seed}, call {call.number} ({call.operation} {call.path}) of {step}"
        accident = Accident(
            f"{where}, {'kill -9' if killed else 'power cut'}",
            self._workload.promises,
            Strength.WRITTEN if killed else Strength.DURABLE,
            self._shown(),
        )
        self._look_into(found, accident)

    def _shown(self) -> dict[TopicPartition, int]:
        """How far readers had been shown each partition in which nothing is shown before it is durable."""
        if self._workload is None or not self._workload.opened:
            return {}
        live = self._workload.log.partitions()
        return {partition.topic_partition: partition.high_watermark for partition in live if partition.topic != LOOSE}

    def _look_into(self, disk: SimulatedDisk, accident: "Accident") -> None:
        second_cut = self._second_cut(disk) if self._random.random() < SECOND_CUTS else []
        sentences, records = examine(disk, accident, self._random)
        self._note(accident, sentences)
        for crashed in second_cut:
            again = accident.followed_by("second cut")
            self._note(again, examine(crashed, again, self._random)[0])
        if self._random.random() < CUTS_AFTERWARDS and not sentences:
            afterwards = accident.followed_by("cut afterwards")
            self._note(afterwards, compare(disk.crash(self._random), records))

    def _second_cut(self, disk: SimulatedDisk) -> list[SimulatedDisk]:
        """Filled, while the disk is opened, with a copy of it as a power cut in the middle would leave it."""
        copies: list[SimulatedDisk] = []
        chosen = self._random.randint(1, self._recovery_calls)
        changes = 0

        def before(call: Call) -> None:
            nonlocal changes
            changes += call.changing
            if call.changing and changes == chosen:
                copies.append(disk.crash(self._random))

        disk.on_call = before
        return copies

    def _note(self, accident: "Accident", sentences: list[str]) -> None:
        self.result.points += 1
        self.result.anomalies += [f"{accident.name}: {sentence}" for sentence in sentences]


@dataclass(frozen=True)
class Accident:
    name: str
    promises: Promises
    firm: Strength
    shown: dict[TopicPartition, int]

    def followed_by(self, name: str) -> "Accident":
        """A power cut comes after it."""
        return Accident(f"{self.name}, {name}", self.promises, Strength.DURABLE, self.shown)


def examine(
    disk: SimulatedDisk, accident: Accident, random: Random
) -> tuple[list[str], dict[TopicPartition, list[Record]]]:
    """What is wrong with the log on this disk, and the records it holds after more writes."""
    try:
        log = open_log(disk)
        # A second cut happens during recovery, or not at all.
        disk.on_call = None
        verdict = verify(log, accident.promises, firm=accident.firm, seen=accident.shown, random=random)
    except Exception as error:  # whatever escapes is what we are looking for
        return [f"the log could not be opened: {type(error).__name__}: {error}"], {}
    return verdict.anomalies, verdict.records


def compare(disk: SimulatedDisk, records: dict[TopicPartition, list[Record]]) -> list[str]:
    try:
        return list(_differences(open_log(disk), records))
    except Exception as error:
        return [f"the log could not be opened: {type(error).__name__}: {error}"]


def _differences(log: Log, records: dict[TopicPartition, list[Record]]) -> Iterator[str]:
    for (topic, number), before in records.items():
        try:
            after = list(log.read(topic, number))
        except HeadwaterError as error:
            yield f"{topic}/{number}: {type(error).__name__}: {error}"
            continue
        if after != before:
            yield f"{topic}/{number} held {len(before)} records and now {len(after)}: {set(before) ^ set(after)}"
