"""Read and write small files that carry a checksum and have a copy beside them (small_file.py draws the bytes).

A write is durable when it returns. After a crash before that, the file has its old content or its new one.
"""

import json
import logging
from collections.abc import Callable
from zlib import crc32

from headwater.errors import DamagedFile
from headwater.log.storage.storage import Storage, parent_of, read_whole
from headwater.small_file import Legacy, SmallFile, copy_path, read_newest, seal, unseal

logger = logging.getLogger("headwater.log")

NAME_BYTES_MAX = 255

Read = Callable[..., SmallFile]
"""read_small_file, or recover_small_file where the file is the reader's own."""


def read_small_file(storage: Storage, path: str, *, legacy: Legacy = json.loads) -> SmallFile:
    """FileNotFoundError if there is none, DamagedFile if neither it nor its copy can be believed. Changes nothing.

    >>> from headwater.log.storage import MemoryStorage
    >>> storage = MemoryStorage()
    >>> write_small_file(storage, "limits.json", {"bytes": 5})
    1
    >>> storage.delete("limits.json")
    >>> found = read_small_file(storage, "limits.json")
    >>> found.content, found.problems
    ({'bytes': 5}, ('limits.json is missing; its copy is used',))
    """
    try:
        return read_newest(path, lambda name: read_whole(storage, name), legacy=legacy)
    except ValueError as error:
        raise DamagedFile(path, str(error)) from None


def recover_small_file(storage: Storage, path: str, *, legacy: Legacy = json.loads) -> SmallFile:
    """As read_small_file, for the owner of the file: where file and copy differ, both are written again.

    What was read is then safe from damage to either. A file of an earlier release stays as it is until it is written.
    """
    found = read_small_file(storage, path, legacy=legacy)
    if found.version and not found.in_step:
        try:
            write_small_file(storage, path, found.content)
        except OSError as error:
            # What was read is right; on a full disk, or a failing one, the next opening tries again.
            logger.warning("%s could not be written again: %s", path, error)
    return found


def write_small_file(storage: Storage, path: str, content: object, *, above: int = 0) -> int:
    """Replace the content, a JSON value, of a file and of its copy, durably; answers its version. One writer at a time.

    The version is larger than `above` and than those that are there, or what was there could be believed instead.
    After an error, either of them has its old content or its new.
    """
    names = (path, copy_path(path))
    version = max(above, *(_version_of(storage, name) for name in names)) + 1
    data = seal(content, version=version)
    # All that needs space comes first: on a full disk either both are replaced or neither.
    for name in names:
        _write(storage, _fresh(name), data)
    first = not storage.exists(path)
    storage.rename(_fresh(path), path)
    if first:  # or a power cut could leave the copy alone, as damage does
        storage.sync_directory(parent_of(path))
    storage.rename(_fresh(copy_path(path)), copy_path(path))
    storage.sync_directory(parent_of(path))
    return version


def delete_small_file(storage: Storage, path: str) -> None:
    """Delete the file and its copy, the copy first and for good: what is found later without its file is damage."""
    if storage.exists(copy_path(path)):
        storage.delete(copy_path(path))
        storage.sync_directory(parent_of(path))
    storage.delete(path)
    storage.sync_directory(parent_of(path))


def problems_of(storage: Storage, path: str, *, legacy: Legacy = json.loads) -> list[str]:
    """Sentences about a file and its copy, for `headwater log check`; none if both are sound, or both missing."""
    try:
        return list(read_small_file(storage, path, legacy=legacy).problems)
    except FileNotFoundError:
        return []
    except DamagedFile as error:
        return [str(error)]


def _version_of(storage: Storage, path: str) -> int:
    """Of what is there and would be believed. OSError if the disk does not give it out: it might come back."""
    try:
        return unseal(read_whole(storage, path), legacy=lambda _: None)[1]
    except (FileNotFoundError, ValueError):
        return 0


def _fresh(path: str) -> str:
    """Where new content is written first; recovery of a partition deletes what ends in ".new"."""
    fresh = path + ".new"
    name = fresh.rpartition("/")[2]
    if len(name) <= NAME_BYTES_MAX:
        return fresh
    return f"{parent_of(path)}/.{crc32(name.encode()):08x}.new".removeprefix("/")


def _write(storage: Storage, path: str, data: bytes) -> None:
    file = storage.open(path, create=True)
    try:
        file.truncate(0)
        file.write_at(0, [data])
        # Without this sync a rename may become durable before the content: an empty file under the real name.
        file.sync()
    finally:
        file.close()
