"""Topics that headwater keeps for itself take whatever is written to them, whatever the node's defaults are."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from headwater.errors import BatchTooLarge, InvalidSetting, InvalidTimestamp
from headwater.log.groups.journal import ensure_topic as ensure_offsets
from headwater.log.log import Log
from headwater.log.own_topics import TAKES_ALL, ensure_own_topic
from headwater.log.storage.memory import MemoryStorage
from headwater.log.topic import Topic
from headwater.log.topic_settings import DEFINITIONS
from headwater.record import Record
from headwater.settings import LogSettings

NARROW = (
    ("max.message.bytes", "1000"),
    ("message.timestamp.after.max.ms", "1000"),
    ("message.timestamp.before.max.ms", "1000"),
    ("retention.bytes", "100"),
    ("headwater.full.policy", "reject"),
)
YEAR_MS = 366 * 86_400_000


def narrow_log() -> Log:
    return Log.open("data", storage=MemoryStorage(), settings=replace(LogSettings(), topic_defaults=NARROW))


def everything(log: Log) -> list[Record]:
    """A record from the future, one from the past, a large one, and more than a narrow topic has room for."""
    now_ms = log.clock.now_ms()
    return [
        Record(b"1", b"k", timestamp_ms=now_ms + 100 * YEAR_MS),
        Record(b"2", b"k", timestamp_ms=now_ms - 50 * YEAR_MS),
        Record(bytes(3 * 1024**2), b"k", timestamp_ms=now_ms),
        Record(b"4", b"k", timestamp_ms=now_ms),
    ]


def test_a_topic_of_our_own_takes_what_one_with_the_nodes_defaults_refuses() -> None:
    log = narrow_log()
    log.create_topic("ordinary")
    ensure_own_topic(log, "own", {"cleanup.policy": "delete"})
    refused = 0
    for record in everything(log):
        try:
            log.append("ordinary", record)
        except (BatchTooLarge, InvalidTimestamp):
            refused += 1
        log.append("own", record)
    assert refused == 3


def test_one_that_was_made_before_or_changed_since_is_fixed() -> None:
    log = narrow_log()
    log.create_topic("own", configs={"message.timestamp.after.max.ms": "5"})
    with pytest.raises(InvalidTimestamp):
        log.append("own", everything(log)[0])
    topic = ensure_own_topic(log, "own", {"cleanup.policy": "delete"})
    for record in everything(log):
        log.append("own", record)
    assert ensure_own_topic(log, "own", {}) is topic, "once it takes all, nothing is written"


def test_the_topic_of_group_offsets_is_one_of_them() -> None:
    settings = ensure_offsets(narrow_log()).configs
    assert {name: settings[name] for name in TAKES_ALL} == TAKES_ALL


def test_every_setting_that_can_refuse_a_record_is_among_those_that_are_said() -> None:
    refusing = {
        name for name in DEFINITIONS if ("max" in name and ("message" in name)) or "full" in name or "append" in name
    }
    assert refusing == TAKES_ALL.keys()


@pytest.mark.parametrize(
    ("wanted", "altered"),
    [
        ({"cleanup.policy": "compact", "retention.ms": "-1"}, {"cleanup.policy": "delete"}),
        ({"cleanup.policy": "compact", "retention.ms": "-1"}, {"cleanup.policy": "compact,delete"}),
        ({"cleanup.policy": "delete"}, {"cleanup.policy": "compact"}),
        ({"cleanup.policy": "delete", "retention.ms": "-1"}, {"retention.ms": "1"}),
        ({"cleanup.policy": "delete", "retention.ms": "5000"}, {"retention.ms": "4999"}),
        ({"cleanup.policy": "delete"}, {"retention.bytes": "100"}),
        ({"cleanup.policy": "delete", "retention.bytes": "5000"}, {"retention.bytes": "100"}),
    ],
)
def test_one_that_was_set_up_to_lose_records_is_fixed(
    wanted: dict[str, str], altered: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    log = narrow_log()
    right = ensure_own_topic(log, "own", wanted)
    log.alter_topic("own", altered)
    fixed = ensure_own_topic(log, "own", wanted)
    assert fixed.settings == right.settings
    assert "was set up to lose records" in caplog.text
    assert ensure_own_topic(log, "own", wanted) is fixed


def test_one_that_keeps_more_than_it_must_is_left_as_it_is() -> None:
    log = narrow_log()
    ensure_own_topic(log, "own", {"cleanup.policy": "delete", "retention.ms": "5000", "retention.bytes": "5000"})
    more = log.alter_topic("own", {"retention.ms": "-1", "retention.bytes": "6000"})
    assert ensure_own_topic(log, "own", {"retention.ms": "5000", "retention.bytes": "5000"}) is more


def test_how_long_the_rows_of_a_captured_table_are_kept_is_said_by_its_users() -> None:
    log = narrow_log()
    ensure_own_topic(log, "shop.users", {"cleanup.policy": "compact"}, kept=False)
    less = log.alter_topic("shop.users", {"cleanup.policy": "delete", "retention.ms": "5"})
    assert ensure_own_topic(log, "shop.users", {"cleanup.policy": "compact"}, kept=False) is less


def test_one_that_can_no_longer_be_compacted_keeps_everything_and_refuses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = narrow_log()
    wanted = {"cleanup.policy": "compact"}
    ensure_own_topic(log, "own", wanted)
    log.alter_topic("own", {"cleanup.policy": "delete", "retention.ms": "5"})
    alter = log.alter_topic

    def archived(name: str, configs: Mapping[str, str | None]) -> Topic:
        if "compact" in (configs.get("cleanup.policy") or ""):
            raise InvalidSetting("cleanup.policy", "compact", "some of its segments are in the archive")
        return alter(name, configs)

    monkeypatch.setattr(log, "alter_topic", archived)
    settings = ensure_own_topic(log, "own", wanted).settings
    assert (settings.retention_ms, settings.retention_bytes) == (-1, -1)
