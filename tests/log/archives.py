"""A log whose sealed segments go to an archive, and a look at what is there."""

from collections.abc import Mapping
from pathlib import Path

import fsspec
from crc32c import crc32c

from headwater.clock import ManualClock
from headwater.log.archive_manifest import State, read_manifest
from headwater.log.archive_store import FOLDER as ARCHIVE
from headwater.log.segment import Segment
from headwater.log.storage.memory import MemoryStorage
from headwater.settings import LogSettings
from tests.log.subjects import FOLDER, TOPIC, Subject

ARCHIVED = {"remote.storage.enable": "true", "segment.bytes": "600", "index.interval.bytes": "100"}
MOVED = {**ARCHIVED, "local.retention.bytes": "0"}
"""What is sealed goes to the archive and leaves the local disk in the same pass."""


class ArchivedSubject(Subject):
    def __init__(
        self,
        configs: Mapping[str, str] | None = None,
        *,
        url: str = "",
        storage: MemoryStorage | None = None,
        clock: ManualClock | None = None,
    ) -> None:
        super().__init__(configs or MOVED, storage=storage, clock=clock, settings=LogSettings(archive_url=url))

    def archived_bases(self, state: State = State.ARCHIVED) -> list[int]:
        return sorted(base for base, entry in read_manifest(self.storage, FOLDER).items() if entry.state is state)

    def local_bases(self) -> list[int]:
        return [int(name.removesuffix(".log")) for name in self.names(".log")]

    def topic_folder(self) -> str:
        return f"{self.log.cluster_id}/{TOPIC}-{self.log.topic(TOPIC).id}"

    def object_names(self) -> list[str]:
        """Names of all objects that the manifest says are there, or may be."""
        entries = read_manifest(self.storage, FOLDER).values()
        folder = f"{self.topic_folder()}/0"
        return sorted(path for entry in entries for path in Segment(self.storage, folder, entry.base_offset).paths)

    def check_archive(self) -> None:
        """What the manifest calls archived is there, byte for byte."""
        for entry in read_manifest(self.storage, FOLDER).values():
            if entry.state is not State.ARCHIVED:
                continue
            paths = Segment(self.storage, f"{self.topic_folder()}/0", entry.base_offset).paths
            store = self.log.archive.store
            assert [store.size(path) for path in paths] == [entry.size, entry.index_size, entry.time_index_size]
            assert crc32c(store.read(paths[0], 0, entry.size)) == entry.crc32c


def objects_on(storage: MemoryStorage) -> list[str]:
    """Names of all objects in the archive beside a log."""
    return sorted(name.removeprefix(f"{ARCHIVE}/") for name in _files_below(storage, ARCHIVE))


def _files_below(storage: MemoryStorage, folder: str) -> list[str]:
    paths = [f"{folder}/{name}" for name in storage.list(folder)]
    return [below for path in paths
            for below in (_files_below(storage, path) if storage.is_directory(path) else [path])]  # fmt: skip


def objects_at(url: str) -> list[str]:
    """Names of all objects at a URL."""
    files, root = fsspec.core.url_to_fs(url)
    return sorted(str(Path(path).relative_to(root)) for path in files.find(root))
