"""A log with one topic on a disk in memory, as most tests of the log want it: written, killed, damaged, reopened."""

import errno
import threading
from collections.abc import Callable, Mapping, Sequence
from random import Random

from headwater.clock import ManualClock
from headwater.log import Log
from headwater.log.appended import Appended
from headwater.log.batch_format import HEADER_BYTES, BatchHeader, encode_batch, read_header
from headwater.log.partition import Partition
from headwater.log.storage.memory import MemoryFile, MemoryStorage
from headwater.log.storage.simulated import SimulatedDisk
from headwater.log.storage.storage import Buffer, read_whole
from headwater.record import Record
from headwater.settings import LogSettings
from headwater.small_file import copy_path
from tests.waiting import LONG

TOPIC = "t"
FOLDER = f"{TOPIC}-0"


def batch(*values: bytes | None, timestamp_ms: int = 1_000, **identity: int) -> bytearray:
    """One batch of records without keys, as a producer would send it."""
    return encode_batch([Record(value, timestamp_ms=timestamp_ms) for value in values or (b"v",)], **identity)  # type: ignore[arg-type]


class Subject:
    """A log on a disk that outlives it, with a topic of one partition."""

    def __init__(
        self,
        configs: Mapping[str, str] | None = None,
        *,
        storage: MemoryStorage | None = None,
        clock: ManualClock | None = None,
        settings: LogSettings | None = None,
    ) -> None:
        self.clock = clock or ManualClock()
        self.storage = storage if storage is not None else MemoryStorage(self.clock)
        self.settings = settings or LogSettings()
        self.open()
        if not self.log.topics():
            self.log.create_topic(TOPIC, configs=configs)

    @property
    def partition(self) -> Partition:
        return self.log.partition(TOPIC, 0)

    # Its life

    def open(self) -> None:
        self.log = Log.open("memory", storage=self.storage, clock=self.clock, settings=self.settings)

    def restart(self) -> None:
        """Stop cleanly and start again."""
        self.log.close()
        self.open()

    def kill(self) -> None:
        """As kill -9: nothing is written any more, and what was written is seen by the next process."""
        self.storage = killed(self.storage)
        self.open()

    def power_cut(self, seed: int) -> None:
        assert isinstance(self.storage, SimulatedDisk)
        self.storage = self.storage.crash(Random(seed))
        self.open()

    # Writing and reading

    def put(self, *values: bytes | None, durable: bool = True, **identity: int) -> Appended:
        """One batch, made durable if asked."""
        appended = self.partition.append(batch(*values, timestamp_ms=self.clock.now_ms(), **identity), durable=durable)
        if durable:
            self.partition.make_durable(appended.last_offset + 1)
        return appended

    def fill(self, count: int, *, size: int = 100, durable: bool = True) -> None:
        """As many batches of one numbered record."""
        for number in range(count):
            self.put(b"%d" % number + b"." * size, durable=durable)

    def records(self, offset: int | None = None) -> list[Record]:
        return list(self.log.read(TOPIC, offset=offset))

    def offsets(self) -> list[int]:
        return [record.offset for record in self.records()]

    def values(self) -> list[bytes | None]:
        return [record.value for record in self.records()]

    # Its files

    def names(self, suffix: str = "") -> list[str]:
        return [name for name in self.storage.list(FOLDER) if name.endswith(suffix)]

    def path(self, number: int, suffix: str = ".log") -> str:
        """Path of a segment's file, counted from the oldest."""
        return f"{FOLDER}/{self.names(suffix)[number]}"

    def bytes_of(self, path: str) -> bytearray:
        return bytearray(read_whole(self.storage, path))

    def overwrite(self, path: str, position: int, data: bytes) -> None:
        """Change a file behind the log's back."""
        file = self.storage.open(path)
        file.write_at(position, [data])
        file.sync()

    def truncate(self, path: str, size: int) -> None:
        file = self.storage.open(path)
        file.truncate(size)
        file.sync()

    def lose(self, name: str, folder: str = FOLDER) -> None:
        """Delete a small file and its copy."""
        for path in (f"{folder}/{name}", copy_path(f"{folder}/{name}")):
            self.storage.delete(path.removeprefix("/"))

    def delete(self, suffix: str) -> None:
        for name in self.names(suffix):
            self.storage.delete(f"{FOLDER}/{name}")


def killed(storage: MemoryStorage) -> MemoryStorage:
    if isinstance(storage, SimulatedDisk):
        return storage.kill()
    storage.close()  # the lock dies with its process
    return storage


def headers_in(data: Buffer) -> list[tuple[int, BatchHeader]]:
    """Where the batches of a sound file are, without the help of any index."""
    found, position = [], 0
    while position + HEADER_BYTES <= len(data):
        header = read_header(data, position)
        found.append((position, header))
        position += header.size
    return found


class CountedFile(MemoryFile):
    storage: "CountedStorage"
    path: str

    def sync(self) -> None:
        self.storage.synced(self.path)
        super().sync()


class CountedStorage(MemoryStorage):
    """Counts syncs of segment files, and can hold or fail them."""

    def __init__(self, clock: ManualClock | None = None) -> None:
        super().__init__(clock or ManualClock())
        self.syncs = 0
        self.before_sync: Callable[[], None] = lambda: None
        self._counting = threading.Lock()

    def open(self, path: str, *, create: bool = False) -> CountedFile:
        file = CountedFile(self._content(path, create=create), self._clock)
        file.storage, file.path = self, path
        return file

    def synced(self, path: str) -> None:
        if path.endswith(".log"):
            with self._counting:
                self.syncs += 1
            self.before_sync()


def in_threads(works: Sequence[Callable[[], None]]) -> None:
    """Run all at once; the first error is raised here."""
    errors: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    if errors:
        raise errors[0]


def no_space() -> OSError:
    return OSError(errno.ENOSPC, "No space left on device")
