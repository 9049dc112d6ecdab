"""What a checkpoint relies on from the place it is kept at. Subclass, give an `objects` fixture, done."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from headwater.flow.objects.objects import Objects, Overtaken


def swapped(objects: Objects, content: bytes) -> str:
    """Replace whatever is there."""
    found = objects.tagged("head")
    return objects.swap("head", content, None if found is None else found.tag)


def tries(swap: Callable[[], str]) -> list[str]:
    """The tag, if it was not overtaken."""
    with suppress(Overtaken):
        return [swap()]
    return []


class ObjectsContract:
    def test_what_is_written_is_read(self, objects: Objects) -> None:
        objects.write("a/b/one", b"1")
        objects.write("a/two", b"")
        assert (objects.read("a/b/one"), objects.read("a/two")) == (b"1", b"")

    def test_a_missing_object_is_not_found(self, objects: Objects, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            objects.read("a/nothing")
        with pytest.raises(FileNotFoundError):
            objects.download("a/nothing", tmp_path / "copy")
        assert objects.tagged("nothing") is None

    def test_a_file_goes_up_and_comes_down(self, objects: Objects, tmp_path: Path) -> None:
        (tmp_path / "given").write_bytes(bytes(range(256)) * 90_000)  # more than one part of an upload
        objects.upload("runs/a", tmp_path / "given")
        objects.download("runs/a", tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == (tmp_path / "given").read_bytes()

    def test_a_copy_outlives_the_original(self, objects: Objects) -> None:
        objects.write("beside/a", b"1")
        objects.copy("beside/a", "runs/a")
        objects.delete(["beside/a"])
        assert objects.read("runs/a") == b"1"

    def test_a_swap_takes_the_place_of_what_it_names(self, objects: Objects) -> None:
        first = objects.swap("head", b"1", None)
        second = objects.swap("head", b"2", first)
        assert objects.tagged("head") == (b"2", second)

    def test_of_two_who_make_an_object_one_succeeds(self, objects: Objects) -> None:
        objects.swap("head", b"1", None)
        with pytest.raises(Overtaken):
            objects.swap("head", b"2", None)
        assert objects.tagged("head")[0] == b"1"  # type: ignore[index]  # it is there

    def test_a_swap_of_what_is_no_longer_there_is_refused(self, objects: Objects) -> None:
        first = objects.swap("head", b"1", None)
        objects.swap("head", b"2", first)
        with pytest.raises(Overtaken):
            objects.swap("head", b"3", first)
        assert objects.tagged("head")[0] == b"2"  # type: ignore[index]  # it is there

    def test_a_swap_that_comes_much_too_late_is_refused(self, objects: Objects) -> None:
        first = objects.swap("head", b"1", None)
        for number in range(2, 40):
            swapped(objects, b"%d" % number)
        with pytest.raises(Overtaken):
            objects.swap("head", b"late", first)
        assert objects.tagged("head")[0] == b"39"  # type: ignore[index]  # it is there
        swapped(objects, b"40")
        assert objects.tagged("head")[0] == b"40"  # type: ignore[index]  # it is there

    def test_of_many_who_swap_the_same_content_one_succeeds(self, objects: Objects) -> None:
        tag = objects.swap("head", b"start", None)
        with ThreadPoolExecutor(8) as pool:
            said = pool.map(lambda number: tries(lambda: objects.swap("head", b"%d" % number, tag)), range(16))
        assert len([one for one in said if one]) == 1

    def test_deleted_objects_are_gone_and_missing_ones_no_error(self, objects: Objects) -> None:
        objects.write("runs/a", b"1")
        objects.write("runs/b", b"2")
        objects.delete(["runs/a", "runs/nothing"])
        with pytest.raises(FileNotFoundError):
            objects.read("runs/a")
        assert [one.name for one in objects.list("runs")] == ["b"]

    def test_objects_are_listed_by_name_with_size_and_time(self, objects: Objects) -> None:
        objects.write("runs/b", b"12345")
        objects.write("runs/a", b"1")
        objects.write("runs/below/c", b"1")
        listed = objects.list("runs")
        assert [(one.name, one.bytes) for one in listed] == [("a", 1), ("b", 5)]
        assert all(one.modified_ms > 1_600_000_000_000 for one in listed)
        assert objects.list("nowhere") == []
