"""Names that are allowed, and that no name reaches outside the data directory."""

import os
import uuid
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.errors import InvalidTopicName
from headwater.log import Log
from headwater.log.topic import (
    NAME_LENGTH_MAX,
    FoundTopic,
    Topic,
    check_name,
    deletion_marked,
    load_topics,
    mark_deletion,
    remove_mark,
    remove_partitions,
    save_topic,
)
from headwater.log.topic_settings import TopicSettings
from headwater.record import Record
from headwater.testing import MemoryStorage

ALLOWED = st.text("abcXYZ019._-", min_size=1, max_size=NAME_LENGTH_MAX).filter(lambda name: name not in (".", ".."))
HOSTILE = st.one_of(
    st.text(max_size=20),
    st.text("./\\%2e\0\n:*~$ab-_\u2024\uff0e\u0430", max_size=12),
    st.sampled_from(
        ["", ".", "..", "../x", "a/b", "/etc/passwd", "a\0", "a\n", "%2e%2e", "a" * 250, "\u0430bc", "a b"]
    ),
)


def topic(name: str, partitions: int = 1) -> Topic:
    return Topic(name, uuid.uuid4(), partitions, {}, TopicSettings.from_configs({}))


@given(name=ALLOWED)
@example("a")
@example("a" * NAME_LENGTH_MAX)
@example("...")
@example("-")
@example("__consumer_offsets")
def test_kafkas_names_are_allowed(name: str) -> None:
    check_name(name)


@given(name=HOSTILE)
def test_other_names_are_refused(name: str) -> None:
    letters = all(letter.isascii() and (letter.isalnum() or letter in "._-") for letter in name)
    refused = not letters or not 0 < len(name) <= 249 or name in (".", "..")
    try:
        check_name(name)
    except InvalidTopicName:
        assert refused
    else:
        assert not refused


class WatchedStorage(MemoryStorage):
    """Notes every path that is touched."""

    def __init__(self) -> None:
        super().__init__()
        self.touched: set[str] = set()

    def _find(self, path: str):
        self.touched.add(path)
        return super()._find(path)


@given(name=HOSTILE | ALLOWED.filter(lambda name: len(name) < 40))
def test_no_name_touches_anything_but_its_own_folder(name: str) -> None:
    storage = WatchedStorage()
    log = Log.open("memory", storage=storage)
    storage.touched.clear()
    try:
        log.create_topic(name)
    except InvalidTopicName:
        assert storage.touched == set()
        return
    own = {"", "topics", f"topics/{name}.json", f"topics/{name}.copy", f"{name}-0"}
    own |= {f"topics/{name}.json.new", f"topics/{name}.copy.new"}
    assert {path for path in storage.touched if not path.startswith(f"{name}-0/")} <= own
    assert not {".", ".."} & {part for path in storage.touched for part in path.split("/")}


def test_the_longest_name_fits_a_real_disk(tmp_path: Path) -> None:
    name = "n" * NAME_LENGTH_MAX
    with Log.open(tmp_path / "data") as log:
        log.create_topic(name, partitions=2)
        log.append(name, Record(b"v"), partition=1)
        log.alter_topic(name, {"retention.ms": "5"})
    with Log.open(tmp_path / "data") as log:
        assert [record.value for record in log.read(name, 1)] == [b"v"]
        log.delete_topic(name)
    assert not [left for left in os.listdir(tmp_path / "data") if left.startswith("n")]


def test_names_that_differ_only_in_case_or_in_a_number_are_different_topics(tmp_path: Path) -> None:
    names = ["orders", "Orders", "orders-0", "orders-0-0", "orders-", "orders."]
    with Log.open(tmp_path / "data") as log:
        for name in names:
            log.create_topic(name, partitions=2)
            log.append(name, Record(name.encode()), partition=0)
    with Log.open(tmp_path / "data") as log:
        assert {name: [record.value for record in log.read(name)] for name in names} == {
            name: [name.encode()] for name in names
        }


def test_a_topic_comes_back_as_it_was_saved() -> None:
    storage = MemoryStorage()
    storage.make_directory("topics")
    saved = Topic(
        "orders.v1", uuid.uuid4(), 3, {"retention.ms": "5"}, TopicSettings.from_configs({"retention.ms": "5"})
    )
    save_topic(storage, saved)
    other = topic("other")
    save_topic(storage, other)
    assert load_topics(storage, {}) == [FoundTopic(saved.name, saved), FoundTopic("other", other)]
    mark_deletion(storage, saved)
    assert load_topics(storage, {}) == [FoundTopic(saved.name, saved, deleting=True), FoundTopic("other", other)]
    assert [deletion_marked(storage, one) for one in (saved, other)] == [True, False]


def test_defaults_hold_where_a_topic_says_nothing_else() -> None:
    storage = MemoryStorage()
    storage.make_directory("topics")
    save_topic(storage, Topic("a", uuid.uuid4(), 1, {}, TopicSettings.from_configs({})))
    save_topic(storage, Topic("b", uuid.uuid4(), 1, {"segment.ms": "7"}, TopicSettings.from_configs({})))
    loaded = load_topics(storage, {"segment.ms": "5"})
    assert [found.topic.settings.segment_ms for found in loaded if found.topic] == [5, 7]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"id": 1}'])
def test_a_damaged_file_is_named(content: bytes) -> None:
    storage = MemoryStorage()
    storage.make_directory("topics")
    storage.open("topics/orders.json", create=True).write_at(0, [content])
    save_topic(storage, topic("other"))
    orders, other = load_topics(storage, {})
    assert orders.topic is None
    assert "topics/orders.json" in orders.damage
    assert other.topic is not None, "one damaged file does not affect other topics"


def test_a_topic_whose_file_is_damaged_or_deleted_is_as_its_copy_says() -> None:
    storage = MemoryStorage()
    storage.make_directory("topics")
    saved = topic("orders", 3)
    save_topic(storage, saved)
    storage.open("topics/orders.json").write_at(50, [b"????"])
    for _ in range(2):
        (found,) = load_topics(storage, {}, repair=True)
        assert found.topic == saved
        assert "topics/orders.json" in found.problems[0]
        storage.delete("topics/orders.json")
    load_topics(storage, {}, repair=True)
    (found,) = load_topics(storage, {})
    assert (found.topic, found.problems) == (saved, ())


def test_half_written_files_are_not_topics() -> None:
    storage = MemoryStorage()
    storage.make_directory("topics")
    storage.open("topics/orders.json.new", create=True).write_at(0, [b"{"])
    assert load_topics(storage, {}) == []


def test_removing_a_topic_leaves_others_alone() -> None:
    storage = MemoryStorage()
    storage.make_directory("topics")
    one, other = topic("a", 2), topic("a-0")
    for kept in (one, other):
        save_topic(storage, kept)
        for number in range(kept.partitions):
            storage.make_directory(f"{kept.name}-{number}")
            storage.open(f"{kept.name}-{number}/file", create=True)
    mark_deletion(storage, one)
    remove_partitions(storage, one)
    assert storage.list("") == ["a-0-0", "topics"]
    remove_mark(storage, one)
    assert storage.list("topics") == ["a-0.copy", "a-0.json"]
