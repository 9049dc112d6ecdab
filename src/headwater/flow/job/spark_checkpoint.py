"""Spark's own checkpoint, made to survive a power cut.

Spark renames its files into their places and syncs none of them: after a power cut each may be there and be empty. What
of it matters is synced here before anything else relies on it, and what is left empty is removed, so that Spark makes
it again.

    metadata      the query's id            written here before Spark would. Lost: another, for Spark wants to have one
    offsets/12    where batch 12 ends       synced before the batch leaves anything behind. Empty: it has not begun
    commits/12    batch 12 is finished      empty: it comes again, and is found finished (processing.py)
"""

import json
from pathlib import Path
from uuid import uuid4

from headwater.errors import JobRefused
from headwater.flow.job.folder import JobFolder
from headwater.log.storage import LocalStorage, Storage, replace_durably

OFFSETS, COMMITS, METADATA = "offsets", "commits", "metadata"


def keep_planned(folder: JobFolder, batch: int) -> None:
    """From here on a batch has the end that Spark has written down for it, whatever happens.

    Otherwise it could be planned again with another end, and sinks that hold it would not take the rows between.
    """
    storage = LocalStorage(folder.spark)
    file = storage.open(f"{OFFSETS}/{batch}")
    try:
        file.sync()
    finally:
        file.close()
    storage.sync_directory(OFFSETS)


def note_committed(folder: JobFolder, batch: int) -> None:
    """Say to Spark that a batch is finished, as it does itself, unless it has said so already."""
    if not (folder.spark / COMMITS / str(batch)).exists():
        (folder.spark / COMMITS).mkdir(parents=True, exist_ok=True)
        storage = LocalStorage(folder.spark)
        replace_durably(storage, f"{COMMITS}/{batch}", b'v1\n{"nextBatchWatermarkMs":0}')


def mend(folder: JobFolder) -> None:
    """Before a query starts: remove what a power cut has left without content, and see that the query has an id.

    JobRefused if the end of a finished batch is among it: that is no work of a power cut.
    """
    storage = LocalStorage(folder.path)
    for made in (folder.spark / OFFSETS, folder.spark / COMMITS):
        made.mkdir(parents=True, exist_ok=True)
    for parent in (folder.spark.name, ""):
        storage.sync_directory(parent)
    _identify(folder.spark / METADATA, storage, folder.spark.name)
    for log in (OFFSETS, COMMITS):
        for file in sorted((folder.spark / log).iterdir()):  # checksums first: they go with their files
            if file.name.isdigit() and not file.read_bytes().startswith(b"v"):
                _refuse_if_needed(folder, log, file)
                _remove(file)
            elif file.name.endswith(".crc") and not file.stat().st_size:
                file.unlink()


def _refuse_if_needed(folder: JobFolder, log: str, file: Path) -> None:
    if log == OFFSETS and folder.finished(int(file.name)) is not None:
        raise JobRefused(
            f"{file} is damaged, and batch {file.name} is finished: nobody knows where it ended",
            "Restore the job's folder from a backup.",
        )


def _identify(file: Path, storage: Storage, parent: str) -> None:
    """Spark makes an id where there is none, but not where there are offsets; nothing of ours depends on it."""
    try:
        json.loads(file.read_bytes())
    except (FileNotFoundError, ValueError):
        _remove(file)
        replace_durably(storage, f"{parent}/{file.name}", json.dumps({"id": str(uuid4())}).encode())


def _remove(file: Path) -> None:
    file.unlink(missing_ok=True)
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
