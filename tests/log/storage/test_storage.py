"""Three disks that nobody can tell apart while nothing goes wrong."""

import tempfile
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.log.storage.local import LocalStorage
from headwater.log.storage.memory import MemoryStorage
from headwater.log.storage.simulated import SimulatedDisk
from headwater.log.storage.storage import Storage, parent_of, read_whole

FILES = st.sampled_from(["a", "b", "x/a", "x/b", "x/y/a"])
FOLDERS = st.sampled_from(["x", "x/y", "z"])
Step = Callable[[Storage], object]


def writing(path: str, position: int, data: bytes) -> Step:
    return lambda storage: storage.open(path, create=True).write_at(position, [data])


def truncating(path: str, size: int) -> Step:
    return lambda storage: storage.open(path).truncate(size)


def reading(path: str) -> Step:
    return lambda storage: read_whole(storage, path)


def renaming(old: str, new: str) -> Step:
    return lambda storage: storage.rename(old, new)


def nested(one: str, other: str) -> bool:
    return one.startswith(other + "/") or other.startswith(one + "/")


def naming(method: str, path: str) -> Step:
    return lambda storage: getattr(storage, method)(path)


ON_FILES = st.sampled_from(["delete", "exists", "is_directory", "size"])
ON_FOLDERS = st.sampled_from(["make_directory", "remove_directory", "sync_directory", "exists", "is_directory", "list"])
STEPS = st.one_of(
    st.builds(writing, FILES, st.integers(0, 40), st.binary(max_size=20)),
    st.builds(truncating, FILES, st.integers(0, 40)),
    st.builds(reading, FILES),
    st.builds(renaming, FILES, FILES),
    # A folder cannot move into itself, nor onto the one it lies in: the log never tries.
    st.tuples(FOLDERS, FOLDERS).filter(lambda pair: not nested(*pair)).map(lambda pair: renaming(*pair)),
    st.builds(naming, ON_FILES, FILES),
    st.builds(naming, ON_FOLDERS, FOLDERS),
)


def outcome(step: Step, storage: Storage) -> object:
    try:
        return step(storage)
    except OSError as error:
        return type(error)


def everything(storage: Storage, folder: str = "") -> dict[str, bytes | None]:
    found: dict[str, bytes | None] = {}
    for name in storage.list(folder):
        path = f"{folder}/{name}" if folder else name
        if storage.is_directory(path):
            found |= {path: None, **everything(storage, path)}
        else:
            found[path] = read_whole(storage, path)
    return found


@settings(max_examples=150)
@given(st.lists(STEPS, max_size=25))
def test_local_files_memory_and_the_simulated_disk_answer_alike(steps: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        disks: list[Storage] = [LocalStorage(folder), MemoryStorage(), SimulatedDisk()]
        for step in steps:
            answers = [outcome(step, disk) for disk in disks]
            assert answers == [answers[0]] * 3
        assert everything(disks[1]) == everything(disks[0])
        assert everything(disks[2]) == everything(disks[0])


def test_the_parent_of_a_path_is_its_folder() -> None:
    assert parent_of("a/b/c") == "a/b"
    assert parent_of("a") == ""
