"""A barrier: offsets at which every job ends a batch that comes by, so that views of several jobs meet at one position.

data/flows/barrier.json    {"until_ms": 1790000000000, "ends": {"orders": {"0": 41}}}

Who reads asks for it, and jobs look at it whenever they plan a batch. It counts for a short time only, delays no job,
and nothing depends on it: a file that is damaged, old or deleted is no barrier.
"""

import json
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headwater.views.locations import FLOWS
from headwater.views.mark import Offsets, position_from_json, position_to_json

FILE = "barrier.json"
BYTES_MAX = 1024**2


@dataclass(frozen=True)
class Barrier:
    until_ms: int
    ends: Offsets


def read_barrier(data: Path, now_ms: int) -> Barrier | None:
    """None if there is none that counts."""
    try:
        with (data / FLOWS / FILE).open("rb") as file:
            said = json.loads(file.read(BYTES_MAX))
        found = Barrier(int(said["until_ms"]), position_from_json(json.dumps(said["ends"])))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return found if now_ms < found.until_ms else None


def write_barrier(data: Path, barrier: Barrier) -> None:
    """Never waits for the disk, and does nothing where no app has run: nothing depends on it."""
    said = json.dumps({"until_ms": barrier.until_ms, "ends": json.loads(position_to_json(barrier.ends))})
    with suppress(OSError):
        handle, fresh = tempfile.mkstemp(prefix=".barrier", dir=data / FLOWS)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(said)
        Path(fresh).replace(data / FLOWS / FILE)
