"""Disks the log can stand on."""

from headwater.log.storage.local import LocalStorage
from headwater.log.storage.memory import MemoryStorage
from headwater.log.storage.small_files import (
    Read,
    delete_small_file,
    problems_of,
    read_small_file,
    recover_small_file,
    write_small_file,
)
from headwater.log.storage.storage import Buffer, File, Storage, out_of_space, parent_of, read_whole, replace_durably

__all__ = [
    "Buffer",
    "File",
    "LocalStorage",
    "MemoryStorage",
    "Read",
    "Storage",
    "delete_small_file",
    "out_of_space",
    "parent_of",
    "problems_of",
    "read_small_file",
    "read_whole",
    "recover_small_file",
    "replace_durably",
    "write_small_file",
]
