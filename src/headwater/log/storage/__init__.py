"""Disks the log can stand on."""

from headwater.log.storage.local import LocalStorage
from headwater.log.storage.memory import MemoryStorage
from headwater.log.storage.storage import Buffer, File, Storage, out_of_space, parent_of, read_whole, replace_durably

__all__ = [
    "Buffer",
    "File",
    "LocalStorage",
    "MemoryStorage",
    "Storage",
    "out_of_space",
    "parent_of",
    "read_whole",
    "replace_durably",
]
