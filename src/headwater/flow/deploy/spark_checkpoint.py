"""The checkpoint of a job that ran as a query of Structured Streaming, as in earlier releases: read, and taken over.

    planned.json       {"12": "v1\\n{…}\\n{…}"}   what stands in offsets/12, noted before the batch had any effect
    spark/offsets/12   a version, {"batchTimestampMs": …}, and where batch 12 ends with its control
    spark/commits/12   batch 12 is finished

Spark syncs none of its files: a power cut leaves some of them empty. What is noted in planned.json counts before them.
"""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from zlib import crc32

from headwater.errors import JobRefused
from headwater.flow.plan.planned_batches import Offsets, PlannedBatch, offsets
from headwater.flow.source.batch_plan.batch_control import CONTROL, NO_CONTROL, BatchControl

FOLDER, OFFSETS, COMMITS = "spark", "offsets", "commits"

CHUNK_BYTES = 512


def is_there(job: Path) -> bool:
    return (job / FOLDER).is_dir()


def planned_batches(
    job: Path, noted: Mapping[str, str], finished: Sequence[int], end_of: Callable[[int], Offsets]
) -> list[PlannedBatch]:
    """The last batches there, at most two. JobRefused, which names the file, if it is lost where a batch that is
    finished ended, or what was finished.

    `noted` is the content of planned.json; `finished` are the batches with a record, which says where they ended.
    """
    last = max(finished, default=-1)
    if (known := max(_numbers(job / FOLDER / COMMITS), default=-1)) > last and finished:
        raise _refused(job / "batches" / f"{known}.json", "it is missing, and the batch is finished")
    batches = []
    for number in (last, last + 1):
        file = job / FOLDER / OFFSETS / str(number)
        text = noted.get(str(number)) or _text(file)
        if text is not None:
            batches.append(_planned(number, end_of(number - 1), text, file))
        elif number == last and number >= 0:
            raise _refused(file, f"batch {number} is finished: where it ended is not known")
    return batches


def remove(job: Path) -> None:
    """Once all of it is noted elsewhere."""
    try:
        shutil.rmtree(job / FOLDER)
    except FileNotFoundError:
        return
    except OSError as error:
        raise JobRefused(
            f"{job / FOLDER} is no longer needed and cannot be removed: {error.strerror}", "Remove it."
        ) from None


def _planned(number: int, before: Offsets, text: str, file: Path) -> PlannedBatch:
    try:
        _, head, said = text.split("\n")
        end = json.loads(said)
        control = BatchControl.from_json(said) if (said := end.pop(CONTROL, None)) else NO_CONTROL
        return PlannedBatch(number, before, offsets(end), int(json.loads(head)["batchTimestampMs"]), control)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _refused(file, str(error)) from None


def _numbers(log: Path) -> list[int]:
    return [int(file.name) for file in log.iterdir() if file.name.isdigit()] if log.is_dir() else []


def _text(file: Path) -> str | None:
    """None if it is not there, or not whole."""
    try:
        content = file.read_bytes()
        version, *lines = content.decode().split("\n")
        whole = version.startswith("v") and len(lines) == 2 and all(json.loads(line) is not None for line in lines)
    except (OSError, ValueError):
        return None
    return content.decode() if whole and _fits_checksum(file, content) else None


def _fits_checksum(file: Path, content: bytes) -> bool:
    """Hadoop's checksum: a head of eight bytes, then a CRC-32 for each 512 bytes. Of another form, it says nothing."""
    try:
        checksum = file.with_name(f".{file.name}.crc").read_bytes()
    except OSError:
        return True
    chunks = [content[at : at + CHUNK_BYTES] for at in range(0, len(content), CHUNK_BYTES)]
    expected = b"".join(crc32(chunk).to_bytes(4, "big") for chunk in chunks)
    return not checksum.startswith(b"crc\0") or len(checksum) != 8 + len(expected) or checksum[8:] == expected


def _refused(file: Path, why: str) -> JobRefused:
    return JobRefused(f"{file} is damaged: {why}", "Restore the job's folder from a backup.")
