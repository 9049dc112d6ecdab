"""Commit points of a capture that is started again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.capture.appender import LogAppender
from headwater.capture.commit_points import CommitPoints
from headwater.log.log import Log
from headwater.record import Record, TopicPartition
from tests.capture.bank import commit_points

USERS, TRANSACTIONS = TopicPartition("users", 0), TopicPartition("shop.transaction", 0)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with Log.open(tmp_path) as log:
        yield log


def append(points: CommitPoints, appender: LogAppender, where: TopicPartition, count: int) -> None:
    points.announce([where.topic])
    end = appender.append(*where, [Record(b"{}") for _ in range(count)])
    points.appended(where, end, count)


def commit(points: CommitPoints) -> None:
    points.mark({})
    points.write()


def test_a_topic_without_new_records_since_the_start_keeps_its_end(log: Log) -> None:
    appender = LogAppender(log)
    before = CommitPoints(appender, "shop")
    for where in (USERS, TRANSACTIONS):
        appender.ensure_topic(where.topic, partitions=1, configs={})
        before.land(where.topic, 1)
        append(before, appender, where, 3)
    commit(before)

    restarted = CommitPoints(appender, "shop")
    restarted.land(USERS.topic, 1)  # the topic of transactions is looked at when the first of them begins
    append(restarted, appender, USERS, 2)
    commit(restarted)

    assert commit_points(log)[-1] == {USERS: 5, TRANSACTIONS: 3}
