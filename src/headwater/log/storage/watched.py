"""A storage that records when a folder could not be synced.

After a failed sync of a folder, names that were new in it may be lost at the next power cut although a later sync
succeeds. So this storage remembers the failure, and the log acknowledges nothing that depends on such a name until it
has been made again.
"""

from collections.abc import Callable

from headwater.log.storage.storage import File, Storage


class WatchedStorage:
    """Any other storage, and a word to its owner: `failed(folder, error)` before the error goes its way."""

    def __init__(self, storage: Storage, failed: Callable[[str, OSError], None]) -> None:
        self._storage, self._failed = storage, failed

    def sync_directory(self, path: str) -> None:
        try:
            self._storage.sync_directory(path)
        except OSError as error:
            self._failed(path, error)
            raise

    def open(self, path: str, *, create: bool = False) -> File:
        return self._storage.open(path, create=create)

    def exists(self, path: str) -> bool:
        return self._storage.exists(path)

    def size(self, path: str) -> int:
        return self._storage.size(path)

    def modified_ms(self, path: str) -> int:
        return self._storage.modified_ms(path)

    def set_modified_ms(self, path: str, ms: int) -> None:
        self._storage.set_modified_ms(path, ms)

    def list(self, directory: str) -> list[str]:
        return self._storage.list(directory)

    def is_directory(self, path: str) -> bool:
        return self._storage.is_directory(path)

    def make_directory(self, path: str) -> None:
        self._storage.make_directory(path)

    def rename(self, old: str, new: str) -> None:
        self._storage.rename(old, new)

    def delete(self, path: str) -> None:
        self._storage.delete(path)

    def remove_directory(self, path: str) -> None:
        self._storage.remove_directory(path)

    def lock(self, path: str) -> None:
        self._storage.lock(path)

    def close(self) -> None:
        self._storage.close()
