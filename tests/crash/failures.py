"""Let the N-th call to the disk fail, for every N, and see that nothing is promised that is not kept.

The same workload as in explorer.py, with one fault: transient or sticky, a broken disk (EIO) or a full one (ENOSPC).
Calls of the log may be refused, but only with errors of headwater's own tree, and no append may be acknowledged on a
partition whose sync has failed, until it is opened again. Then the process dies or the power is cut, the disk is sound
again, and what is found is held against the promises.
"""

import errno
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from random import Random

from headwater.clock import ManualClock
from headwater.log.storage.simulated import CHANGING_OPERATIONS, READING_OPERATIONS, Fault, SimulatedDisk
from tests.crash.explorer import Accident, compare, examine
from tests.crash.promises import Strength
from tests.crash.workload import Workload


@dataclass(frozen=True)
class Failure:
    """Which call fails, and how."""

    nth: int
    code: int
    sticky: bool
    operations: Collection[str]

    def __str__(self) -> str:
        kind = "changing" if self.operations == CHANGING_OPERATIONS else "reading"
        return f"{kind} call {self.nth} fails with {errno.errorcode[self.code]} {'for good' if self.sticky else 'once'}"


KINDS = (
    (errno.EIO, False, CHANGING_OPERATIONS),
    (errno.EIO, True, CHANGING_OPERATIONS),
    (errno.ENOSPC, False, CHANGING_OPERATIONS),
    (errno.ENOSPC, True, CHANGING_OPERATIONS),
    (errno.EIO, False, READING_OPERATIONS),
    (errno.EIO, True, READING_OPERATIONS),
)


def failures(seed: int, *, steps: int, stride: int = 1) -> Iterator[Failure]:
    """Every kind of failure at every `stride`-th call of the workload, each kind at other calls than the next."""
    disk = SimulatedDisk(ManualClock(), seed=seed)
    counter = disk.fail(Fault(CHANGING_OPERATIONS, nth=2**31))
    reading = disk.fail(Fault(READING_OPERATIONS, nth=2**31))
    Workload(disk, seed).run(steps)
    for index, (code, sticky, operations) in enumerate(KINDS):
        calls = counter.seen if operations is CHANGING_OPERATIONS else reading.seen
        for nth in range(1 + index * stride // len(KINDS), calls + 1, stride):
            yield Failure(nth, code, sticky, operations)


def survive(seed: int, failure: Failure, *, steps: int) -> list[str]:
    """What goes wrong when this call fails: nothing, if the log is worth its name."""
    disk = SimulatedDisk(ManualClock(), seed=seed)
    fault = disk.fail(Fault(failure.operations, nth=failure.nth, code=failure.code, sticky=failure.sticky))
    where = f"seed {seed}, {failure}"
    workload = Workload(disk, seed, fault=fault)
    try:
        workload.run(steps)
    except Exception as error:  # the workload lets nothing escape that may
        return [f"{where}: {type(error).__name__} escaped from {workload.step_name}: {error}"]
    sentences = workload.anomalies
    disk.heal()
    random = Random(failure.nth)
    accidents = (
        (disk.kill(), Accident("kill -9", workload.promises, Strength.WRITTEN, {})),
        (disk.crash(random), Accident("power cut", workload.promises, Strength.DURABLE, {})),
    )
    for found, accident in accidents:
        wrong, records = examine(found, accident, random)
        sentences = sentences + [f"{accident.name}: {sentence}" for sentence in wrong]
        gone = compare(found.crash(random), records) if not wrong else []
        sentences = sentences + [f"{accident.name}, cut afterwards: {sentence}" for sentence in gone]
    return [f"{where}: {sentence}" for sentence in sentences]
