"""The list of a partition's segments in the archive, kept on the local disk as `archive.json`.

    copying    begun, perhaps in part there: not to be believed, but to be cleaned up
    archived   there as a whole, and verified: the local copy may go
    deleting   its records are given up: to be deleted there, then struck off

An object in the archive has an entry for as long as any part of it may exist, and an entry says `archived` only while
all of it does. Entries change before the objects they speak of, or after, whichever keeps both sentences true:

    nothing ──► copying ── upload, verify ──► archived ──► deleting ── delete ──► nothing
                   └───────────────────────────────────────────┘
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from crc32c import crc32c

from headwater.errors import DamagedFile
from headwater.log.storage import Read, Storage, read_small_file, write_small_file

NAME = "archive.json"


class State(StrEnum):
    COPYING = "copying"
    ARCHIVED = "archived"
    DELETING = "deleting"


@dataclass(frozen=True)
class ArchiveEntry:
    """One segment. Its time index is not needed to know its largest timestamp, nor its log to know its age."""

    state: State
    base_offset: int
    next_offset: int
    size: int
    index_size: int
    time_index_size: int
    largest_timestamp_ms: int
    largest_timestamp_offset: int
    last_append_ms: int
    crc32c: int


Entries = dict[int, ArchiveEntry]


def read_manifest(
    storage: Storage, directory: str, say: Callable[[str], None] = lambda _: None, *, read: Read = read_small_file
) -> Entries:
    """Entries by base offset. `say` receives a report of damage that its copy repaired.

    DamagedFile if they cannot be believed: what they spoke of may be all that is left of its records, and to go on
    without them would move the start offset past it for good.
    """
    path = f"{directory}/{NAME}"
    try:
        found = read(storage, path, legacy=_legacy)
        entries = [ArchiveEntry(**{**row, "state": State(row["state"])}) for row in found.content]
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedFile(path, str(error)) from None
    for problem in found.problems:
        say(problem)
    return {entry.base_offset: entry for entry in entries}


def write_manifest(storage: Storage, directory: str, entries: Mapping[int, ArchiveEntry]) -> None:
    write_small_file(storage, f"{directory}/{NAME}", [asdict(entries[base]) for base in sorted(entries)])


def _legacy(data: bytes) -> list[dict[str, Any]]:
    """An object with the rows and their checksum."""
    content = json.loads(data)
    rows: list[dict[str, Any]] = content["segments"]
    if content["crc32c"] != crc32c(json.dumps(rows, sort_keys=True, separators=(",", ":")).encode()):
        raise ValueError("its checksum does not fit")
    return rows
