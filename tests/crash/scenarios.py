"""Narrow places, looked at hundreds of times: each answers sentences about what went wrong, and none if nothing did."""

from collections.abc import Iterator
from random import Random

from headwater.clock import ManualClock
from headwater.log.log import Log
from headwater.log.storage.simulated import Call, SimulatedDisk
from headwater.record import Record
from tests.crash.promises import Batch, Producer
from tests.crash.workload import SETTINGS, encoded

TOPIC = "orders"


def open_log(disk: SimulatedDisk) -> Log:
    return Log.open("simulated", storage=disk, clock=disk.clock, settings=SETTINGS)


def new_log(**configs: str) -> tuple[SimulatedDisk, Log]:
    disk = SimulatedDisk(ManualClock())
    log = open_log(disk)
    log.create_topic(TOPIC, configs={name.replace("_", "."): value for name, value in configs.items()})
    return disk, log


def segments_set_aside_stay_away() -> list[str]:
    """Whole segments after a torn one were never acknowledged.

    Once put aside, they must not come back after new ones.
    """
    disk, log = new_log(segment_bytes="300")
    for number in range(4):
        log.append(TOPIC, Record(b"unsynced %d " % number + b"." * 150), durable=False)
    return [sentence for seed in range(300) for sentence in _twice_cut(disk, Random(seed))]


def _twice_cut(disk: SimulatedDisk, random: Random) -> Iterator[str]:
    once = disk.crash(random)
    log = open_log(once)
    log.append(TOPIC, Record(b"acknowledged"))
    before = list(log.read(TOPIC))
    after = list(open_log(once.crash(random)).read(TOPIC))
    if after != before:
        yield f"{len(before)} records were shown, and {len(after)} are there after the next power cut"


def a_checkpoint_beside_an_append_is_true() -> list[str]:
    """While a checkpoint waits for its sync, a producer appends. What it appended is not covered, nor remembered."""
    disk, log = new_log()
    partition = log.partition(TOPIC, 0)
    batches = [Batch(number, ((None, b"%d" % number),), 0, Producer(7, 0, number)) for number in range(4)]
    partition.make_durable(partition.append(encoded(batches[0]), durable=True).last_offset + 1)
    partition.append(encoded(batches[1]), durable=True)
    waiting = batches[2:]

    def append_meanwhile(call: Call) -> None:
        if waiting and call.operation == "sync" and call.path.endswith(".log"):
            partition.append(encoded(waiting.pop(0)), durable=True)

    disk.on_call = append_meanwhile
    partition.checkpoint()
    disk.on_call = None
    return [sentence for seed in range(60) for sentence in _retried(disk.crash(Random(seed)), batches)]


def _retried(disk: SimulatedDisk, batches: list[Batch]) -> Iterator[str]:
    log = open_log(disk)
    partition = log.partition(TOPIC, 0)
    found = [record.value for record in log.read(TOPIC)]
    if len(found) != partition.end_offset:
        yield f"it ends at {partition.end_offset} and holds {len(found)} records"
    for batch in batches:
        partition.make_durable(partition.append(encoded(batch), durable=True).last_offset + 1)
    found = [record.value for record in log.read(TOPIC)]
    if found != [value for batch in batches for _, value in batch.records]:
        yield f"four batches were acknowledged when they were sent again; there are {found}"


def a_swap_of_segments_is_whole_at_every_moment() -> list[str]:
    """Wherever a compaction is cut off, the newest value of every key is there."""
    disk, log = new_log(
        cleanup_policy="compact", segment_bytes="250", min_cleanable_dirty_ratio="0.01", index_interval_bytes="0"
    )
    newest: dict[bytes | None, bytes | None] = {}
    for number in range(20):
        key, value = b"k%d" % (number % 4), b"v%d" % number
        log.append(TOPIC, Record(value, key=key))
        newest[key] = value
    log.alter_topic(TOPIC, {"segment.bytes": "5000"})  # so that several are replaced by one
    sentences: list[str] = []

    def cut(call: Call) -> None:
        times = 3 * call.changing + 50 * (call.operation == "sync_directory")
        for seed in range(times):
            found = open_log(disk.crash(Random(call.number * 100 + seed))).read(TOPIC)
            if {record.key: record.value for record in found} != newest:
                sentences.append(f"cut off at {call}, not all newest values are there")

    disk.on_call = cut
    log.maintain()
    if len(list(log.read(TOPIC))) == 20:
        sentences.append("nothing was compacted")
    return sentences
