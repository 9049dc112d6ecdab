"""Reading a segment that lies only in the archive.

It is a segment like any other whose files are read in blocks: a consumer that goes through it asks for a megabyte at a
time, and what was read lately is kept, indexes included, up to a bound for the whole log.
"""

import errno
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import NoReturn

from headwater.errors import ArchiveUnavailable
from headwater.log.archive_manifest import ArchiveEntry
from headwater.log.archive_store import ArchiveStore
from headwater.log.segment import Segment
from headwater.log.storage import Buffer, File, Storage

BLOCK_BYTES = 1024**2
CACHE_BYTES_MAX = 32 * 1024**2

BlockKey = tuple[str, int, int]  # name of the object, its size, number of the block


class BlockCache:
    """Blocks of archived files that were read lately. Who asks for one that is on its way waits for the same answer."""

    def __init__(self, *, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._blocks: OrderedDict[BlockKey, bytes] = OrderedDict()
        self._bytes = 0
        self._loading: dict[BlockKey, Future[bytes]] = {}

    @property
    def size_bytes(self) -> int:
        return self._bytes

    def get(self, key: BlockKey) -> bytes | None:
        with self._lock:
            return self._got(key)

    def _got(self, key: BlockKey) -> bytes | None:
        block = self._blocks.get(key)
        if block is not None:
            self._blocks.move_to_end(key)
        return block

    def load(self, key: BlockKey, fetch: Callable[[], bytes]) -> bytes:
        """The block, fetched unless it is there."""
        with self._lock:
            block = self._got(key)
            if block is not None:
                return block
            under_way = self._loading.get(key)
            if under_way is None:
                mine = self._loading[key] = Future[bytes]()
        if under_way is not None:
            return under_way.result()
        try:
            block = fetch()
            self._keep(key, block)
            mine.set_result(block)
        except BaseException as error:
            mine.set_exception(error)
            raise
        finally:
            with self._lock:
                del self._loading[key]
        return block

    def _keep(self, key: BlockKey, block: bytes) -> None:
        with self._lock:
            self._bytes += len(block) - len(self._blocks.pop(key, b""))
            self._blocks[key] = block
            while self._bytes > self._bytes_max:
                self._bytes -= len(self._blocks.popitem(last=False)[1])


class ArchivedFile:
    """An object of the archive as a File that is only read. ArchiveUnavailable where a disk would give an OSError."""

    def __init__(self, store: ArchiveStore, blocks: BlockCache, name: str, size: int) -> None:
        self._store, self._blocks = store, blocks
        self._name, self._size = name, size

    def size(self) -> int:
        return self._size

    def read_at(self, position: int, length: int) -> bytes:
        numbers = self._block_numbers(position, length)
        return self._joined([self._block(number) for number in numbers], position, length)

    def read_cached(self, position: int, length: int) -> Buffer | None:
        blocks = []
        for number in self._block_numbers(position, length):
            block = self._blocks.get(self._key(number))
            if block is None:
                return None
            blocks.append(block)
        return self._joined(blocks, position, length)

    def send_cached(self, descriptor: int, position: int, length: int) -> int | None:
        return None

    def _block_numbers(self, position: int, length: int) -> range:
        end = min(position + length, self._size)
        return range(position // BLOCK_BYTES, -(-end // BLOCK_BYTES)) if position < end else range(0)

    def _joined(self, blocks: Sequence[bytes], position: int, length: int) -> bytes:
        start = position % BLOCK_BYTES
        if len(blocks) == 1:
            return blocks[0][start : start + length]
        with memoryview(b"".join(blocks)) as joined:
            return bytes(joined[start : start + length])

    def _key(self, number: int) -> BlockKey:
        return self._name, self._size, number

    def _block(self, number: int) -> bytes:
        return self._blocks.load(self._key(number), lambda: self._fetched(number))

    def _fetched(self, number: int) -> bytes:
        start = number * BLOCK_BYTES
        length = min(BLOCK_BYTES, self._size - start)
        data = self._store.read(self._name, start, length)
        if len(data) != length:
            raise ArchiveUnavailable(self._name, f"it answered {len(data)} bytes instead of {length}")
        return data

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> None:
        self._refuse()

    def truncate(self, size: int) -> None:
        self._refuse()

    def sync(self) -> None:
        self._refuse()

    def close(self) -> None:
        return

    def _refuse(self) -> NoReturn:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), self._name)


class ArchivedSegment(Segment):
    """A sealed segment without local files; `paths` are the names of its objects."""

    local = False

    def __init__(
        self, storage: Storage, folder: str, entry: ArchiveEntry, open_object: Callable[[str, int], File]
    ) -> None:
        super().__init__(storage, folder, entry.base_offset, size=entry.size)
        self.last_append_ms = entry.last_append_ms
        if entry.largest_timestamp_offset >= 0:
            self._largest = (entry.largest_timestamp_ms, entry.largest_timestamp_offset)
        self._open_object = open_object
        self._sizes = dict(zip(self.paths, (entry.size, entry.index_size, entry.time_index_size), strict=True))

    def _open(self, path: str) -> File:
        return self._open_object(path, self._sizes[path])
