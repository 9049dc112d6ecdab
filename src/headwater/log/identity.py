"""The identity of a log: `identity.json`, a small file with a copy beside it (small_file.py).

    format         of the data directory
    cluster_id     given once; the archive's folders are named by it
    producer_ids   ids below this one may have been given out
    moment         the time as last known (trusted_time.py)

A log that holds data never gets a fresh identity: its producer ids would be given out a second time, and what the new
owner of one sends would be taken for retries, acknowledged and dropped. If file and copy are lost, the checkpoints of
the partitions know the cluster's id, and the partitions which producers they have seen.
"""

import re
import uuid
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import DamagedFile, UsageError
from headwater.log.checkpoint import Say, read_checkpoint
from headwater.log.storage import Storage, recover_small_file, write_small_file
from headwater.log.trusted_time import Moment

IDENTITY = "identity.json"
FORMAT = 1
_PARTITION, _SEGMENT = re.compile(r".+-\d+"), re.compile(r"\d{20}\.log")
LONG_AGO = Moment(0, 0, "")
"""Nothing is known of the time: so much has passed that deletion is held back for a while."""


@dataclass(frozen=True)
class Identity:
    cluster_id: str
    producer_ids: int
    moment: Moment | None

    @classmethod
    def fresh(cls) -> "Identity":
        return cls(uuid.uuid4().hex[:22], 0, None)


def read_identity(storage: Storage, say: Say) -> Identity | None:
    """None if there is no such file, or none that can be believed, and the checkpoints of partitions know it.

    `say` receives reports of damage. DamagedFile if the file is damaged and no other file holds the id.
    """
    try:
        found = recover_small_file(storage, IDENTITY)
        content = found.content
        identity = Identity(str(content["cluster_id"]), int(content["producer_ids"]), Moment(*content["moment"]))
        data_format = content["format"]
    except FileNotFoundError:
        return None
    except (DamagedFile, ValueError, KeyError, TypeError) as error:
        damaged = (
            error if isinstance(error, DamagedFile) else DamagedFile(IDENTITY, f"it is not what was written ({error})")
        )
        if _cluster_id_noted(storage) is None:
            raise damaged from None
        say(damaged.summary)
        return None
    for problem in found.problems:
        say(problem)
    if data_format != FORMAT:
        raise UsageError(f"the data directory has format {data_format}; this release reads {FORMAT}")
    return identity


def write_identity(storage: Storage, identity: Identity) -> None:
    moment = identity.moment or LONG_AGO
    content = {
        "format": FORMAT,
        "cluster_id": identity.cluster_id,
        "producer_ids": identity.producer_ids,
        "moment": [moment.trusted_ms, moment.elapsed_ms, moment.boot_id],
    }
    write_small_file(storage, IDENTITY, content)


def holds_data(storage: Storage) -> bool:
    return bool(_partition_folders(storage))


def restored_identity(storage: Storage) -> Identity:
    """From the checkpoints of the partitions. DamagedFile if none of them knows the cluster's id."""
    cluster_id = _cluster_id_noted(storage)
    if cluster_id is None:
        raise DamagedFile(
            IDENTITY, "it is missing, and the partitions were written by a release that does not repeat it"
        )
    return Identity(cluster_id, 0, LONG_AGO)


def _cluster_id_noted(storage: Storage) -> str | None:
    checkpoints = (read_checkpoint(storage, folder) for folder in _partition_folders(storage))
    return next((one.cluster_id for one in checkpoints if one is not None and one.cluster_id), None)


def _partition_folders(storage: Storage) -> list[str]:
    """Folders that hold segments, of topics that are known or not; other parts keep folders beside them."""
    folders = [name for name in storage.list("") if _PARTITION.fullmatch(name) and storage.is_directory(name)]
    return [name for name in folders if any(_SEGMENT.fullmatch(file) for file in storage.list(name))]


def boot_id() -> str:
    """What this start of the machine is called; "" where that is not known."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
