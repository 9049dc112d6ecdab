"""A flipped bit, a lost sector, two sectors in each other's place: noticed, never served, and no neighbour suffers.

Only power cuts and the process dying are repaired; what a sound disk once held and then changed can only be found out.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pytest

from headwater.clock import ManualClock
from headwater.errors import DamagedRange
from headwater.log.batch_format import read_header
from headwater.log.check import check_log
from headwater.log.log import Log
from headwater.log.storage.simulated import SimulatedDisk
from headwater.log.storage.storage import read_whole
from headwater.record import Record

TOPIC = "orders"
FOLDER = f"{TOPIC}-0/"
SECTOR_BYTES = 512
LEADER_EPOCH = range(12, 16)
"""The one field of a batch that neither the checksum nor its neighbours vouch for. Nothing is decided by it."""


@dataclass
class Sound:
    """A log in good order on a disk that is copied for each accident."""

    disk: SimulatedDisk
    records: dict[int, Record]

    def logs(self) -> list[str]:
        return [path for path in self.disk.files() if path.startswith(FOLDER) and path.endswith(".log")]

    def batches(self, path: str) -> list[tuple[range, range]]:
        """Bytes and offsets of each batch in a file."""
        content, position, found = read_whole(self.disk, path), 0, []
        while position < len(content):
            header = read_header(content, position)
            found.append((range(position, position + header.size), range(header.base_offset, header.next_offset)))
            position += header.size
        return found

    def offsets_touched(self, path: str, touched: range) -> set[int]:
        hit = [
            offsets for span, offsets in self.batches(path) if span.start < touched.stop and touched.start < span.stop
        ]
        return {offset for offsets in hit for offset in offsets}


@dataclass
class Found:
    records: dict[int, Record] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)


def build(*, stopped_cleanly: bool) -> Sound:
    disk, random = SimulatedDisk(ManualClock()), Random(7)
    log = Log.open("simulated", storage=disk, clock=disk.clock)
    log.create_topic(TOPIC, configs={"segment.bytes": "1200", "index.interval.bytes": "150"})
    for number in range(60):
        rows = [
            Record(b"%d.%d" % (number, row) + b"." * random.choice((0, 30, 90))) for row in range(random.randint(1, 4))
        ]
        log.append(TOPIC, rows, compression=random.choice(("none", "zstd", "lz4")))
    records = {record.offset: record for record in log.read(TOPIC)}
    if stopped_cleanly:
        log.close()
    return Sound(disk.kill(), records)


@pytest.fixture(scope="module", params=[True, False], ids=["after a clean stop", "after kill -9"])
def sound(request: pytest.FixtureRequest) -> Sound:
    return build(stopped_cleanly=request.param)


def read_all(disk: SimulatedDisk) -> Found:
    """Read as a careful consumer: it continues after damage that an error names."""
    log = Log.open("simulated", storage=disk, clock=disk.clock)
    partition, found = log.partition(TOPIC, 0), Found()
    found.lines += partition.recovery_report
    offset = partition.start_offset
    while offset < partition.high_watermark:
        try:
            for record in log.read(TOPIC, offset=offset):
                found.records[record.offset] = record
            break
        except DamagedRange as damage:
            found.lines.append(str(damage))
            offset = max(damage.end, offset + 1)
    return found


def assert_only_lost(found: Found, sound: Sound, lost: set[int]) -> None:
    assert {offset: record for offset, record in found.records.items() if record != sound.records[offset]} == {}
    assert sound.records.keys() - found.records.keys() <= lost


@pytest.mark.parametrize("seed", range(4))
def test_a_flipped_bit_costs_its_batch_and_nothing_else(sound: Sound, seed: int) -> None:
    random = Random(seed)
    for _ in range(60):
        path = random.choice(sound.logs())
        bit = random.randrange(8 * sound.disk.size(path))
        disk = sound.disk.kill()
        disk.flip_bit(path, bit)
        lost = sound.offsets_touched(path, range(bit // 8, bit // 8 + 1))
        checked = check_log(disk.kill())
        found = read_all(disk)
        assert_only_lost(found, sound, lost)
        if found.records.keys() != sound.records.keys():
            assert found.lines, f"bit {bit} of {path} went unnoticed"
            assert not checked.sound
        else:
            assert harmless(sound, path, bit // 8)


def harmless(sound: Sound, path: str, byte: int) -> bool:
    [span] = [span for span, _ in sound.batches(path) if byte in span]
    return byte - span.start in LEADER_EPOCH


def zero_a_sector(disk: SimulatedDisk, path: str, random: Random) -> list[int]:
    sector = random.randrange(-(-disk.size(path) // SECTOR_BYTES))
    disk.zero_sector(path, sector)
    return [sector]


def swap_two_sectors(disk: SimulatedDisk, path: str, random: Random) -> list[int]:
    whole = disk.size(path) // SECTOR_BYTES
    one, other = random.sample(range(whole), 2) if whole > 1 else (0, 0)
    disk.swap_sectors(path, one, other)
    return [one, other]


@pytest.mark.parametrize("damage", [zero_a_sector, swap_two_sectors])
def test_a_lost_or_misdirected_sector_costs_its_batches_and_nothing_else(
    sound: Sound, damage: Callable[[SimulatedDisk, str, Random], list[int]]
) -> None:
    random = Random(3)
    for _ in range(60):
        path, disk = random.choice(sound.logs()), sound.disk.kill()
        sectors = damage(disk, path, random)
        touched = [range(SECTOR_BYTES * sector, SECTOR_BYTES * (sector + 1)) for sector in sectors]
        lost = set().union(*(sound.offsets_touched(path, span) for span in touched))
        assert_only_lost(read_all(disk), sound, lost)


@pytest.mark.parametrize("kind", [".index", ".timeindex"])
def test_a_flipped_bit_in_an_index_costs_no_record(sound: Sound, kind: str) -> None:
    random = Random(5)
    paths = [path for path in sound.disk.files() if path.startswith(FOLDER) and path.endswith(kind)]
    paths = [path for path in paths if sound.disk.size(path)]
    for _ in range(100):
        path, disk = random.choice(paths), sound.disk.kill()
        disk.flip_bit(path, random.randrange(8 * disk.size(path)))
        assert_only_lost(read_all(disk), sound, set())


def test_a_lost_index_is_rebuilt(sound: Sound) -> None:
    disk = sound.disk.kill()
    for path in disk.files():
        if path.endswith(("index", "timeindex")):
            disk.delete(path)
    found = read_all(disk)
    assert found.records == sound.records


@pytest.mark.parametrize("name", ["checkpoint", "durable"])
def test_a_damaged_note_about_the_partition_costs_no_record(sound: Sound, name: str) -> None:
    random = Random(9)
    for _ in range(40):
        disk = sound.disk.kill()
        disk.flip_bit(FOLDER + name, random.randrange(8 * disk.size(FOLDER + name)))
        assert_only_lost(read_all(disk), sound, set())


def test_damage_that_was_found_stays_known_and_the_rest_readable(sound: Sound) -> None:
    disk = sound.disk.kill()
    path = sound.logs()[3]
    disk.flip_bit(path, 8 * 200)
    lost = sound.offsets_touched(path, range(200, 201))
    first = read_all(disk)
    disk.close()
    second = read_all(disk)
    assert sound.records.keys() - first.records.keys() == lost
    assert second.records == first.records
    [quarantined] = [report.quarantined for report in check_log(disk).partitions]
    assert {offset for damage in quarantined for offset in range(damage.first_offset, damage.end_offset)} == lost
