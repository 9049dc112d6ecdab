"""What the log relies on from a disk. Subclass, give a `storage` fixture, done.

A fresh storage holds nothing; `reopened` is a second one on the same disk, as another process would open it.
"""

import threading

import pytest

from headwater.log.storage.storage import Storage, parent_of, read_whole, replace_durably


def write(storage: Storage, path: str, content: bytes) -> None:
    file = storage.open(path, create=True)
    file.write_at(0, [content])
    file.close()


class StorageContract:
    # Files

    def test_a_new_file_is_empty(self, storage: Storage) -> None:
        assert storage.open("a", create=True).size() == 0
        assert storage.size("a") == 0

    def test_a_missing_file_is_an_error_unless_it_may_be_created(self, storage: Storage) -> None:
        with pytest.raises(FileNotFoundError):
            storage.open("a")
        with pytest.raises(FileNotFoundError):
            storage.size("a")
        with pytest.raises(FileNotFoundError):
            storage.modified_ms("a")
        assert not storage.exists("a")

    def test_a_file_in_a_missing_folder_cannot_be_created(self, storage: Storage) -> None:
        with pytest.raises(FileNotFoundError):
            storage.open("folder/a", create=True)

    def test_opening_with_create_keeps_what_is_there(self, storage: Storage) -> None:
        write(storage, "a", b"kept")
        assert storage.open("a", create=True).read_at(0, 10) == b"kept"

    def test_all_buffers_are_written_one_after_the_other(self, storage: Storage) -> None:
        file = storage.open("a", create=True)
        file.write_at(0, [b"one", bytearray(b"two"), memoryview(b"_three_")[1:-1], b""])
        assert file.read_at(0, 100) == b"onetwothree"
        assert (file.size(), storage.size("a")) == (11, 11)

    def test_more_buffers_than_one_call_of_the_system_takes_are_written(self, storage: Storage) -> None:
        file = storage.open("a", create=True)
        pieces = [bytes([number % 251]) * (number % 7) for number in range(3000)]
        file.write_at(0, pieces)
        assert read_whole(storage, "a") == b"".join(pieces)

    def test_a_write_may_overwrite_and_extend(self, storage: Storage) -> None:
        file = storage.open("a", create=True)
        file.write_at(0, [b"abcdef"])
        file.write_at(4, [b"EFGH"])
        assert file.read_at(0, 100) == b"abcdEFGH"

    def test_a_write_past_the_end_leaves_zeros_between(self, storage: Storage) -> None:
        file = storage.open("a", create=True)
        file.write_at(3, [b"x"])
        assert file.read_at(0, 100) == b"\0\0\0x"

    def test_a_read_ends_at_the_end_of_the_file(self, storage: Storage) -> None:
        write(storage, "a", b"abcdef")
        file = storage.open("a")
        assert file.read_at(4, 100) == b"ef"
        assert file.read_at(6, 1) == b""
        assert file.read_at(700, 1) == b""
        assert file.read_at(2, 0) == b""

    def test_a_cached_read_answers_the_same_bytes_or_fewer_or_none(self, storage: Storage) -> None:
        write(storage, "a", b"abcdef")
        assert b"bcd".startswith(storage.open("a").read_cached(1, 3) or b"")

    def test_truncate_cuts_and_extends_with_zeros(self, storage: Storage) -> None:
        file = storage.open("a", create=True)
        file.write_at(0, [b"abcdef"])
        file.truncate(2)
        assert file.read_at(0, 100) == b"ab"
        file.truncate(4)
        assert file.read_at(0, 100) == b"ab\0\0"

    def test_what_one_handle_writes_another_reads(self, storage: Storage) -> None:
        writer, reader = storage.open("a", create=True), storage.open("a")
        writer.write_at(0, [b"abc"])
        assert reader.read_at(0, 3) == b"abc"
        writer.sync()
        assert reader.read_at(0, 3) == b"abc"

    def test_a_closed_file_cannot_be_used_and_may_be_closed_again(self, storage: Storage) -> None:
        file = storage.open("a", create=True)
        file.close()
        file.close()
        with pytest.raises(OSError, match="Bad file descriptor"):
            file.read_at(0, 1)
        with pytest.raises(OSError, match="Bad file descriptor"):
            file.write_at(0, [b"x"])
        with pytest.raises(OSError, match="Bad file descriptor"):
            file.sync()

    def test_the_time_of_change_can_be_set(self, storage: Storage) -> None:
        write(storage, "a", b"x")
        assert storage.modified_ms("a") > 1_600_000_000_000
        storage.set_modified_ms("a", 1_234_567_890_123)
        assert storage.modified_ms("a") == 1_234_567_890_123

    def test_writing_moves_the_time_of_change(self, storage: Storage) -> None:
        write(storage, "a", b"x")
        storage.set_modified_ms("a", 1_000)
        write(storage, "a", b"y")
        assert storage.modified_ms("a") > 1_600_000_000_000

    # Names

    def test_a_folder_lists_its_names_sorted(self, storage: Storage) -> None:
        for path in ("b", "a", "B"):
            write(storage, path, b"")
        storage.make_directory("folder/inner")
        write(storage, "folder/z", b"")
        assert storage.list("") == ["B", "a", "b", "folder"]
        assert storage.list("folder") == ["inner", "z"]

    def test_a_missing_folder_lists_nothing(self, storage: Storage) -> None:
        assert storage.list("nowhere") == []

    def test_a_folder_is_made_with_its_parents_and_may_be_there(self, storage: Storage) -> None:
        storage.make_directory("a/b/c")
        storage.make_directory("a/b/c")
        assert storage.is_directory("a/b/c")
        assert storage.exists("a/b")

    def test_a_file_is_not_a_folder(self, storage: Storage) -> None:
        write(storage, "a", b"")
        assert not storage.is_directory("a")
        assert not storage.is_directory("nowhere")
        with pytest.raises(FileExistsError):
            storage.make_directory("a")
        with pytest.raises(NotADirectoryError):
            storage.list("a")
        storage.make_directory("folder")
        with pytest.raises(IsADirectoryError):
            storage.open("folder")

    def test_a_rename_replaces_the_target(self, storage: Storage) -> None:
        write(storage, "a", b"new")
        write(storage, "b", b"old")
        storage.rename("a", "b")
        assert storage.list("") == ["b"]
        assert read_whole(storage, "b") == b"new"

    def test_a_rename_reaches_another_folder(self, storage: Storage) -> None:
        storage.make_directory("x")
        storage.make_directory("y")
        write(storage, "x/a", b"moved")
        storage.rename("x/a", "y/b")
        assert storage.list("x") == []
        assert read_whole(storage, "y/b") == b"moved"

    def test_a_folder_is_renamed_with_all_in_it(self, storage: Storage) -> None:
        storage.make_directory("old/inner")
        write(storage, "old/inner/a", b"here")
        storage.rename("old", "new")
        assert read_whole(storage, "new/inner/a") == b"here"
        assert not storage.exists("old")

    def test_a_rename_of_a_missing_file_is_an_error(self, storage: Storage) -> None:
        write(storage, "b", b"untouched")
        with pytest.raises(FileNotFoundError):
            storage.rename("a", "b")
        assert read_whole(storage, "b") == b"untouched"

    def test_a_rename_never_replaces_a_folder_that_holds_something(self, storage: Storage) -> None:
        storage.make_directory("x")
        storage.make_directory("y/inner")
        with pytest.raises(OSError, match="not empty"):
            storage.rename("x", "y")
        write(storage, "a", b"")
        with pytest.raises(IsADirectoryError):
            storage.rename("a", "y")
        with pytest.raises(NotADirectoryError):
            storage.rename("x", "a")

    def test_deleting_twice_is_deleting_once(self, storage: Storage) -> None:
        write(storage, "a", b"")
        storage.delete("a")
        storage.delete("a")
        assert storage.list("") == []

    def test_only_an_empty_folder_can_be_removed(self, storage: Storage) -> None:
        storage.make_directory("folder")
        write(storage, "folder/a", b"")
        with pytest.raises(OSError, match="not empty"):
            storage.remove_directory("folder")
        with pytest.raises(IsADirectoryError):
            storage.delete("folder")
        storage.delete("folder/a")
        storage.remove_directory("folder")
        storage.remove_directory("folder")
        assert not storage.exists("folder")

    def test_syncing_a_missing_folder_is_an_error(self, storage: Storage) -> None:
        storage.sync_directory("")
        with pytest.raises(FileNotFoundError):
            storage.sync_directory("nowhere")

    def test_an_open_file_outlives_its_name(self, storage: Storage) -> None:
        write(storage, "a", b"first")
        file = storage.open("a")
        storage.delete("a")
        assert file.read_at(0, 5) == b"first"
        write(storage, "a", b"second")
        assert file.read_at(0, 6) == b"first"

    def test_an_open_file_follows_its_rename_and_survives_being_replaced(self, storage: Storage) -> None:
        write(storage, "a", b"mover")
        write(storage, "b", b"replaced")
        mover, replaced = storage.open("a"), storage.open("b")
        storage.rename("a", "b")
        mover.write_at(0, [b"M"])
        assert read_whole(storage, "b") == b"Mover"
        assert replaced.read_at(0, 8) == b"replaced"

    def test_replacing_durably_leaves_one_file_with_the_new_content(self, storage: Storage) -> None:
        storage.make_directory("folder")
        replace_durably(storage, "folder/point", b"a longer first content")
        replace_durably(storage, "folder/point", b"second")
        assert storage.list(parent_of("folder/point")) == ["point"]
        assert read_whole(storage, "folder/point") == b"second"

    # The lock

    def test_only_one_owner_at_a_time(self, storage: Storage, reopened: Storage) -> None:
        storage.lock("lock")
        with pytest.raises(BlockingIOError):
            reopened.lock("lock")
        storage.close()
        reopened.lock("lock")
        reopened.close()

    def test_the_lock_names_its_owner(self, storage: Storage) -> None:
        storage.lock("lock")
        assert read_whole(storage, "lock").strip().isdigit()
        storage.close()

    # Threads

    def test_readers_see_whole_bytes_while_a_writer_appends(self, storage: Storage) -> None:
        file = storage.open("a", create=True)
        wrong: list[bytes] = []

        def read() -> None:
            reader = storage.open("a")
            while (size := reader.size()) < 64 * 100:
                if set(reader.read_at(0, size)) - {7}:
                    wrong.append(reader.read_at(0, size))

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        for number in range(100):
            file.write_at(64 * number, [b"\7" * 64])
        for thread in threads:
            thread.join()
        assert wrong == []

    def test_threads_may_create_and_delete_names_at_once(self, storage: Storage) -> None:
        storage.make_directory("folder")

        def churn(mine: int) -> None:
            for number in range(100):
                write(storage, f"folder/{mine}-{number}", b"x")
                storage.rename(f"folder/{mine}-{number}", f"folder/{mine}")
                storage.list("folder")

        threads = [threading.Thread(target=churn, args=(mine,)) for mine in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert storage.list("folder") == ["0", "1", "2", "3"]
