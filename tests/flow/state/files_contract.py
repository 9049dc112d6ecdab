"""What the state relies on from a file system. Subclass, give a `files` fixture, done."""

import pytest

from headwater.flow.state.files import StateFiles


def stored(files: StateFiles, path: str, *pieces: bytes) -> None:
    writer = files.create(path)
    for piece in pieces:
        writer.write([piece])
    writer.finish()


class FilesContract:
    def test_a_finished_file_is_read_as_it_was_written(self, files: StateFiles) -> None:
        stored(files, "runs/a", b"one", b"two")
        assert files.read("runs/a") == b"onetwo"
        assert files.map("runs/a").to_pybytes() == b"onetwo"

    def test_several_buffers_are_written_one_after_the_other(self, files: StateFiles) -> None:
        writer = files.create("runs/a")
        writer.write([b"ab", memoryview(b"_cd_")[1:3], bytearray(b"e")])
        writer.finish()
        assert files.read("runs/a") == b"abcde"

    def test_an_abandoned_file_is_not_there(self, files: StateFiles) -> None:
        writer = files.create("runs/a")
        writer.write([b"half"])
        writer.abandon()
        assert files.list("runs") == []

    def test_a_missing_file_is_not_found(self, files: StateFiles) -> None:
        with pytest.raises(FileNotFoundError):
            files.read("versions/a")
        with pytest.raises(FileNotFoundError):
            files.map("runs/a")

    def test_replacing_makes_a_file_or_takes_the_place_of_one(self, files: StateFiles) -> None:
        files.replace("versions/a", b"old")
        files.replace("versions/a", b"newer")
        assert files.read("versions/a") == b"newer"
        assert [file.name for file in files.list("versions")] == ["a"]

    def test_files_are_listed_by_name_with_size_and_time(self, files: StateFiles) -> None:
        stored(files, "runs/b", b"12345")
        stored(files, "runs/a", b"1")
        listed = files.list("runs")
        assert [(file.name, file.bytes) for file in listed] == [("a", 1), ("b", 5)]
        assert all(file.modified_ms > 1_600_000_000_000 for file in listed)

    def test_a_missing_folder_lists_nothing(self, files: StateFiles) -> None:
        assert files.list("runs") == []

    def test_a_later_file_is_not_older(self, files: StateFiles) -> None:
        stored(files, "runs/a", b"1")
        files.replace("runs/b", b"2")
        first, second = files.list("runs")
        assert first.modified_ms <= second.modified_ms

    def test_deleted_files_are_gone_and_missing_ones_no_error(self, files: StateFiles) -> None:
        for name in "abc":
            stored(files, f"runs/{name}", b"x")
        files.delete(["runs/a", "runs/c", "runs/nothing"])
        assert [file.name for file in files.list("runs")] == ["b"]
        with pytest.raises(FileNotFoundError):
            files.read("runs/a")
        with pytest.raises(FileNotFoundError):
            files.map("runs/a")

    def test_a_mapped_file_stays_readable_after_it_was_deleted(self, files: StateFiles) -> None:
        stored(files, "runs/a", b"mapped" * 10_000)
        mapped = files.map("runs/a")
        files.delete(["runs/a"])
        assert mapped.to_pybytes() == b"mapped" * 10_000

    def test_after_forgetting_a_file_it_is_still_there(self, files: StateFiles) -> None:
        stored(files, "runs/a", b"here")
        files.map("runs/a")
        files.forget("runs/a")
        assert files.map("runs/a").to_pybytes() == b"here"
