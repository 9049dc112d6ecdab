"""Large values that an update left out: they are filled with what the topic has, or nothing."""

import sqlite3
from pathlib import Path

import pytest

from headwater.capture.change import CapturedTable
from headwater.capture.last_values import LastValues, problem_of
from headwater.errors import CaptureError
from headwater.record import TopicPartition

DOCUMENTS = CapturedTable("public", "documents", "docs.documents", ("id", "body"), (0,))
KEY, BODY = b'{"id":7}', b'"' + b"large" * 100 + b'"'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """With one row in it, all in one file."""
    values = LastValues(tmp_path / "values.sqlite")
    values.note(DOCUMENTS, KEY, [b"7", BODY])
    values.reach(TopicPartition(DOCUMENTS.topic, 0), 40)
    values.flush()
    values._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    values.close()
    return tmp_path / "values.sqlite"


def completed(file: Path) -> list[bytes | None]:
    """A row whose body the source did not say."""
    values = LastValues(file)
    try:
        return list(values.completed(DOCUMENTS, KEY, [b"7", None]))
    finally:
        values.close()


def test_a_value_that_was_left_out_is_completed(file: Path) -> None:
    assert completed(file) == [b"7", BODY]
    assert problem_of(file) == ""


def test_a_flipped_bit_is_never_emitted_as_a_value(file: Path) -> None:
    """Wherever it is in the file: the value is right, is left out, or the file is made again from the topics."""
    whole = file.read_bytes()
    begin = whole.index(BODY) - 60
    places = [*range(begin, begin + len(BODY) + 90), *range(0, len(whole), 97)]
    refused = 0
    for place in places:
        for path in file.parent.iterdir():
            path.unlink()
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0x04]) + whole[place + 1 :])
        problem, found = problem_of(file), _completed_or_refused(file)
        if found is None:
            assert problem, place
            refused += 1
        else:
            assert found in ([b"7", BODY], [b"7", None]), place
    assert refused > len(BODY)


def _completed_or_refused(file: Path) -> list[bytes | None] | None:
    try:
        return completed(file)
    except CaptureError:
        assert not file.exists(), "it is not made again"
        return None
    except sqlite3.OperationalError:
        return None  # SQLite does not take it for a database of its own


def test_a_file_of_an_earlier_release_is_made_again(tmp_path: Path) -> None:
    file = tmp_path / "values.sqlite"
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE value(topic TEXT, key BLOB, names TEXT, row BLOB, PRIMARY KEY (topic, key))")
        database.execute("CREATE TABLE reached(topic TEXT, partition INTEGER, offset INTEGER)")
        database.execute("INSERT INTO value VALUES (?, ?, ?, ?)", ("docs.documents", KEY, '["id"]', b"7"))
    database.close()
    assert problem_of(file) == ""
    assert completed(file) == [b"7", None]


def test_an_emptied_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "values.sqlite"
    path.touch()
    assert "no such table" in problem_of(path)
