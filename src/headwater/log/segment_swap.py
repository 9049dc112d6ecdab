"""Replaces segments with the cleaned segment made from them, so that no crash can leave it half done.

`swap.json`, a small file with a copy beside it, is the promise to do so: {"replaced": [0, 40], "replacement": 0,
"sizes": [log, index, time index]}. From the moment it is durable the change happens: now, or at the next opening.
To carry out one that was carried out before changes nothing: base offsets are never used a second time.
"""

from headwater.errors import DamagedFile
from headwater.log.manifest import Manifest, SealedSegment
from headwater.log.segment import Segment
from headwater.log.storage import Storage, delete_small_file, problems_of, read_small_file, read_whole, write_small_file

NAME = "swap.json"
CLEANED = ".cleaned"


def begin_swap(storage: Storage, directory: str, *, replaced: list[int], replacement: int) -> None:
    """Promise to put `<replacement>.*.cleaned` (written and synced) in the place of the replaced segments."""
    # The names of the replacement come first: a promise that survives without them would only delete.
    storage.sync_directory(directory)
    sizes = [storage.size(path + CLEANED) for path in Segment(storage, directory, replacement).paths]
    journal = {"replaced": replaced, "replacement": replacement, "sizes": sizes}
    write_small_file(storage, f"{directory}/{NAME}", journal)


def finish_swap(storage: Storage, directory: str, manifest: Manifest) -> None:
    """Carry out the swap that was promised, from whatever point it had reached. DamagedFile if it cannot be read."""
    try:
        journal = read_small_file(storage, f"{directory}/{NAME}").content
        replaced, base = [int(one) for one in journal["replaced"]], int(journal["replacement"])
        sizes = journal.get("sizes")  # of releases before there was a manifest: none
        fresh = None if sizes is None else SealedSegment(base, base, int(sizes[0]), int(sizes[1]), int(sizes[2]))
    except FileNotFoundError:
        return
    except (LookupError, TypeError, ValueError, AttributeError):
        raise DamagedFile(f"{directory}/{NAME}", "it is not what was written") from None
    _replace_files(storage, directory, replaced, Segment(storage, directory, base))
    # Before the promise is taken away: a start in between would miss the segments that were replaced.
    if fresh is not None:
        manifest.swapped(replaced, fresh)
    delete_small_file(storage, f"{directory}/{NAME}")


def problems_of_swap(storage: Storage, directory: str) -> list[str]:
    """Of a promise that is still to be carried out, and of the files that wait for it; none if there is none."""
    path = f"{directory}/{NAME}"
    problems = problems_of(storage, path)
    try:
        journal = read_small_file(storage, path).content
        waiting = [one + CLEANED for one in Segment(storage, directory, int(journal["replacement"])).paths]
        sizes = [int(one) for one in journal.get("sizes") or ()]
    except (FileNotFoundError, DamagedFile):
        return problems
    except (LookupError, TypeError, ValueError, AttributeError):
        return [*problems, f"{path} is damaged: it is not what was written"]
    for name, size in zip(waiting, sizes, strict=False):
        if storage.exists(name) and (why := _unlike(storage, name, size)):
            problems.append(f"{name} is damaged: {why}")
    return problems


def _unlike(storage: Storage, path: str, size: int) -> str:
    try:
        found = len(read_whole(storage, path))
    except OSError as error:
        return str(error)
    return "" if found == size else f"it has {found} bytes and should have {size}"


def _replace_files(storage: Storage, directory: str, replaced: list[int], replacement: Segment) -> None:
    for base in replaced:
        old = Segment(storage, directory, base)
        # Indexes first: a log file without them is read again, one with the wrong ones would mislead.
        for path in (old.index_path, old.time_index_path):
            if base != replacement.base_offset or storage.exists(path + CLEANED):
                storage.delete(path)
        if base != replacement.base_offset:
            storage.delete(old.log_path)
    storage.sync_directory(directory)
    for path in replacement.paths:
        if storage.exists(path + CLEANED):
            storage.rename(path + CLEANED, path)
    storage.sync_directory(directory)
