"""What only files of the operating system can do."""

import os
import socket
from pathlib import Path

import pytest

from headwater.log.storage import LocalStorage, MemoryStorage, write_small_file

CONTENT = os.urandom(300_000)


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    storage = LocalStorage(tmp_path)
    storage.open("a", create=True).write_at(0, [CONTENT])
    return storage


def test_bytes_go_from_file_to_socket_and_a_full_socket_takes_none(storage: LocalStorage) -> None:
    file = storage.open("a")
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        sent = file.send_cached(near.fileno(), 1000, 5000)
        assert sent
        assert far.recv(10_000, socket.MSG_WAITALL if sent == 10_000 else 0) == CONTENT[1000 : 1000 + sent]
        while file.send_cached(near.fileno(), 0, len(CONTENT)):
            pass
        assert file.send_cached(near.fileno(), 0, 100) == 0


def test_a_range_that_ends_past_the_file_is_not_handed_over(storage: LocalStorage) -> None:
    near, far = socket.socketpair()
    with near, far:
        assert storage.open("a").send_cached(near.fileno(), len(CONTENT) - 10, 20) is None


def test_a_closed_socket_is_left_to_the_ordinary_write(storage: LocalStorage) -> None:
    near, far = socket.socketpair()
    far.close()
    with near:
        assert storage.open("a").send_cached(near.fileno(), 0, 100) is None


def test_memory_has_nothing_to_hand_over() -> None:
    assert MemoryStorage().open("a", create=True).send_cached(0, 0, 1) is None


def test_what_is_private_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "secrets", private=True)
    storage.make_directory("")
    write_small_file(storage, "definition.json", {"password": "x"})
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "secrets").iterdir()} == {0o600}
