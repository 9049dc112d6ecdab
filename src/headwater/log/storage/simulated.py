"""A disk in memory that keeps no promise it did not make.

Everything exists twice: as the running process sees it, and as it would be found after a power cut. `crash` gives the
disk after a power cut (unsynced.py says what is left of it), `kill` the disk after kill -9: all is seen as before, and
what was not synced still is not.

Faults: the n-th call of a kind fails (`fail`), bits flip, sectors are zeroed or swapped, space runs out
(`capacity_bytes`). A failed sync of a file is the end of what it should have written: any part of it is on the disk,
the rest counts as clean, and the next sync does not write it either, though reads still show it. Names are not lost so:
they go through a journal, and the next sync of their folder that succeeds writes them.

`on_call` is called before each call takes effect: the moment to take a crashed copy, or to do something else meanwhile.
What is changed while a sync is under way is not covered by it.
"""

import errno
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from random import Random
from typing import NamedTuple

from headwater.clock import Clock
from headwater.log.storage.memory import Content, Folder, MemoryFile, MemoryStorage, error
from headwater.log.storage.storage import Buffer
from headwater.log.storage.unsynced import SECTOR_BYTES, PowerCut, SimulatedContent, SimulatedFolder

CHANGING_OPERATIONS = (
    *("create", "write", "truncate", "sync", "set_modified"),
    *("make_directory", "rename", "delete", "remove_directory", "sync_directory"),
)
READING_OPERATIONS = ("open", "read", "size", "modified", "list")


class Call(NamedTuple):
    """One call to the disk; `number` counts them all, from 1."""

    number: int
    operation: str
    path: str
    position: int = -1
    length: int = -1

    @property
    def changing(self) -> bool:
        return self.operation in CHANGING_OPERATIONS


@dataclass
class Fault:
    """The n-th call of these operations on a path with this text in it fails; if sticky, all after it too."""

    operations: Collection[str]
    _: KW_ONLY
    nth: int = 1
    code: int = errno.EIO
    sticky: bool = False
    path_part: str = ""
    seen: int = 0
    struck: list[Call] = field(default_factory=list)

    def strikes(self, call: Call) -> bool:
        if call.operation not in self.operations or self.path_part not in call.path:
            return False
        self.seen += 1
        if self.seen < self.nth or (self.seen > self.nth and not self.sticky):
            return False
        self.struck.append(call)
        return True


class SimulatedFile(MemoryFile):
    def __init__(self, content: SimulatedContent, path: str, disk: "SimulatedDisk") -> None:
        super().__init__(content, disk.clock)
        self._path = path
        self._disk = disk

    def _simulated(self) -> SimulatedContent:
        content = self._opened()
        assert isinstance(content, SimulatedContent)
        return content

    def size(self) -> int:
        self._disk.called("size", self._path)
        return super().size()

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> None:
        whole = b"".join(buffers)
        code = self._disk.fault("write", self._path, position, len(whole))
        room = len(whole) if not code else self._disk.random.randint(0, len(whole))
        space = self._disk.space_for(self._simulated(), position, len(whole))
        if space < room:
            room, code = space, errno.ENOSPC
        super().write_at(position, [whole[:room]])
        if code:
            raise error(code, self._path)

    def read_at(self, position: int, length: int) -> bytes:
        self._disk.called("read", self._path, position, length)
        return super().read_at(position, length)

    def truncate(self, size: int) -> None:
        self._disk.called("truncate", self._path, size)
        super().truncate(size)

    def sync(self) -> None:
        content = self._simulated()
        changes = len(content.pending)
        if code := self._disk.fault("sync", self._path):
            content.lose_sync(PowerCut(self._disk.random))
            raise error(code, self._path)
        content.sync(changes)


class SimulatedDisk(MemoryStorage):
    def __init__(self, clock: Clock | None = None, *, capacity_bytes: int | None = None, seed: int = 0) -> None:
        super().__init__(clock)
        self.random = Random(seed)
        self.capacity_bytes = capacity_bytes
        self.calls = 0
        self.on_call: Callable[[Call], None] | None = None
        self._faults: list[Fault] = []

    @property
    def clock(self) -> Clock:
        return self._clock

    # Accidents

    def crash(self, random: Random) -> "SimulatedDisk":
        """The disk as it may be found after a power cut now; this one is not changed."""
        with self._names:
            return self._copy(self._simulated_folder("").after_cut(PowerCut(random)), random.getrandbits(32))

    def kill(self) -> "SimulatedDisk":
        """The disk as the next process finds it after kill -9 now; this one is not changed."""
        with self._names:
            return self._copy(self._simulated_folder("").after_kill(), self.random.getrandbits(32))

    def fail(self, fault: Fault) -> Fault:
        """From now on; the fault notes the calls it struck."""
        self._faults.append(fault)
        return fault

    def heal(self) -> None:
        self._faults.clear()

    def flip_bit(self, path: str, bit: int) -> None:
        content = self._simulated_content(path)
        content.damage(bit // 8, bytes([content.data[bit // 8] ^ (1 << bit % 8)]))

    def zero_sector(self, path: str, sector: int) -> None:
        content = self._simulated_content(path)
        content.damage(sector * SECTOR_BYTES, bytes(len(self._sector(content, sector))))

    def swap_sectors(self, path: str, one: int, other: int) -> None:
        """Swaps two sectors, as a disk that misdirects writes does."""
        content = self._simulated_content(path)
        first, second = self._sector(content, one), self._sector(content, other)
        common = min(len(first), len(second))
        content.damage(one * SECTOR_BYTES, second[:common])
        content.damage(other * SECTOR_BYTES, first[:common])

    def files(self) -> list[str]:
        """Paths of all files as a running process sees them; this is not counted as a call."""
        with self._names:
            return sorted(_paths_below("", self._root))

    # The calls, counted

    def called(self, operation: str, path: str, position: int = -1, length: int = -1) -> None:
        if code := self.fault(operation, path, position, length):
            raise error(code, path)

    def fault(self, operation: str, path: str, position: int = -1, length: int = -1) -> int:
        """Count a call and answer the error code it must fail with, or 0."""
        with self._names:
            self.calls += 1
            call = Call(self.calls, operation, path, position, length)
        if self.on_call is not None:
            self.on_call(call)
        with self._names:
            codes = [fault.code for fault in self._faults if fault.strikes(call)]
        return codes[0] if codes else 0

    def space_for(self, content: SimulatedContent, position: int, length: int) -> int:
        """How many of these bytes fit on the disk."""
        if self.capacity_bytes is None:
            return length
        with self._names:
            used = sum(_sector_bytes(len(self._content(path).data)) for path in self.files())
        allocated = _sector_bytes(len(content.data))
        return min(length, max(0, self.capacity_bytes - used + allocated - position))

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        self.called("create" if create and self._find(path) is None else "open", path)
        content = self._content(path, create=create)
        assert isinstance(content, SimulatedContent)
        return SimulatedFile(content, path, self)

    def size(self, path: str) -> int:
        self.called("size", path)
        return super().size(path)

    def modified_ms(self, path: str) -> int:
        self.called("modified", path)
        return super().modified_ms(path)

    def set_modified_ms(self, path: str, ms: int) -> None:
        self.called("set_modified", path)
        super().set_modified_ms(path, ms)

    def list(self, directory: str) -> list[str]:
        self.called("list", directory)
        return super().list(directory)

    def make_directory(self, path: str) -> None:
        self.called("make_directory", path)
        super().make_directory(path)

    def rename(self, old: str, new: str) -> None:
        self.called("rename", new)
        super().rename(old, new)

    def delete(self, path: str) -> None:
        self.called("delete", path)
        super().delete(path)

    def remove_directory(self, path: str) -> None:
        self.called("remove_directory", path)
        super().remove_directory(path)

    def sync_directory(self, path: str) -> None:
        folder = self._simulated_folder(path)
        changes = len(folder.pending)
        code = self.fault("sync_directory", path)
        with self._names:
            if code:
                folder.fail_sync(PowerCut(self.random))
                raise error(code, path)
            folder.sync(changes)

    # The nodes

    def _new_content(self) -> Content:
        return SimulatedContent(self._clock.now_ms())

    def _new_folder(self) -> Folder:
        return SimulatedFolder()

    def _simulated_content(self, path: str) -> SimulatedContent:
        content = self._content(path)
        assert isinstance(content, SimulatedContent)
        return content

    def _simulated_folder(self, path: str) -> SimulatedFolder:
        folder = self._folder(path)
        assert isinstance(folder, SimulatedFolder)
        return folder

    def _sector(self, content: SimulatedContent, sector: int) -> bytes:
        return bytes(content.data[sector * SECTOR_BYTES : (sector + 1) * SECTOR_BYTES])

    def _copy(self, root: SimulatedFolder, seed: int) -> "SimulatedDisk":
        copy = SimulatedDisk(self._clock, capacity_bytes=self.capacity_bytes, seed=seed)
        copy._root = root
        return copy


def _sector_bytes(size: int) -> int:
    return -(-size // SECTOR_BYTES) * SECTOR_BYTES


def _paths_below(path: str, folder: Folder) -> Iterable[str]:
    for name, node in folder.entries.items():
        below = f"{path}/{name}" if path else name
        if isinstance(node, Folder):
            yield from _paths_below(below, node)
        else:
            yield below
