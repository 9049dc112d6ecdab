"""The saved index: believed only where it says what the log says."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.log.log import Log
from headwater.log.streams import index
from headwater.log.streams.condition import Append, Match, StreamWrite
from headwater.log.streams.event import NewEvent
from headwater.log.streams.event_topic import EventTopic
from tests.contracts.event_storage import append, types

FILE = "seats-0/streams.index"


def stored(folder: Path, *names: str) -> None:
    with Log.open(folder) as log:
        events = EventTopic.open(log, "seats")
        for name in names:
            events.append(Append((StreamWrite("s", [NewEvent(name, b"{}", ("x",))]),), f"request-{name}"))
        events.close()


def found(folder: Path) -> list[str]:
    with Log.open(folder) as log:
        events = EventTopic.open(log, "seats")
        assert [one.version for one in events.page(match=Match((), ("x",))).events] == [1, 2]
        assert append(events, "s", "A", request="request-A").repeated
        return types(events, "s")


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: None,
        flipped,
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-5]),
        lambda path: path.write_bytes(b"something else altogether"),
    ],
    ids=["sound", "flipped", "deleted", "empty", "truncated", "another"],
)
def test_a_damaged_index_is_made_from_the_log(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    stored(tmp_path, "A", "B")
    damage(tmp_path / FILE)
    assert found(tmp_path) == ["A", "B"]


def test_an_older_index_is_continued(tmp_path: Path) -> None:
    stored(tmp_path, "A")
    older = (tmp_path / FILE).read_bytes()
    stored(tmp_path, "B")
    (tmp_path / FILE).write_bytes(older)
    assert found(tmp_path) == ["A", "B"]


def test_an_index_of_another_history_is_not_believed(tmp_path: Path) -> None:
    stored(tmp_path / "one", "A", "B")
    stored(tmp_path / "other", "C", "D")
    (tmp_path / "one" / FILE).write_bytes((tmp_path / "other" / FILE).read_bytes())
    assert found(tmp_path / "one") == ["A", "B"]


def test_an_index_of_a_deleted_topic_says_nothing_of_the_next(tmp_path: Path) -> None:
    stored(tmp_path, "A", "B")
    with Log.open(tmp_path) as log:
        log.delete_topic("seats")
        events = EventTopic.open(log, "seats")
        assert events.version("s") == 0


def test_a_request_beyond_the_window_is_known_by_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "REQUESTS_MAX", 3)
    with Log.open(tmp_path) as log:
        events = EventTopic.open(log, "seats")
        first = append(events, "s", "A", "B", expected=0, request="first")
        for number in range(5):
            append(events, "s", "C", request=f"r{number}")
        again = append(events, "s", "A", "B", expected=0, request="first")
        assert (again.events, again.repeated) == (first.events, True)
        assert not append(events, "s", "A", request="first").repeated, "without a version it is forgotten"
