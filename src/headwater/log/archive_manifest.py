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
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum

from crc32c import crc32c

from headwater.errors import DamagedFile
from headwater.log.storage import Storage, read_whole, replace_durably

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


def read_manifest(storage: Storage, directory: str) -> dict[int, ArchiveEntry]:
    """Entries by base offset.

    DamagedFile if they cannot be believed: what they spoke of may be all that is left of its records, and to go on
    without them would move the start offset past it for good.
    """
    path = f"{directory}/{NAME}"
    try:
        content = json.loads(read_whole(storage, path))
        if content["crc32c"] != crc32c(_rows_bytes(content["segments"])):
            raise ValueError("its checksum does not fit")
        entries = [ArchiveEntry(**{**row, "state": State(row["state"])}) for row in content["segments"]]
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedFile(path, str(error)) from None
    return {entry.base_offset: entry for entry in entries}


def write_manifest(storage: Storage, directory: str, entries: Mapping[int, ArchiveEntry]) -> None:
    rows = [asdict(entries[base]) for base in sorted(entries)]
    content = {"crc32c": crc32c(_rows_bytes(rows)), "segments": rows}
    replace_durably(storage, f"{directory}/{NAME}", json.dumps(content).encode())


def _rows_bytes(rows: Iterable[object]) -> bytes:
    return json.dumps(rows, sort_keys=True, separators=(",", ":")).encode()
