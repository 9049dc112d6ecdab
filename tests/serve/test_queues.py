"""Queues over HTTP, without HTTP: a request in, a status and what becomes JSON out."""

import json
from typing import Any

import pytest

from headwater.access.acls import Operation
from headwater.log.groups.member import DescribedGroup
from headwater.log.log import Log
from headwater.log.storage import MemoryStorage
from headwater.record import Record
from headwater.serve.operations import Operations, Sources
from headwater.serve.permissions import needs_of
from headwater.serve.queues import Queues


@pytest.fixture
def log() -> Log:
    """With a queue of four messages, of which a consumer has two."""
    log = Log.open("data", storage=MemoryStorage())
    log.create_topic("mail")
    log.append("mail", [Record(b"m%d" % number) for number in range(4)])
    log.queue("mail").take(2)
    return log


def ask(log: Log, method: str, path: str, said: Any = None, **query: str) -> tuple[int, Any]:
    body = b"" if said is None else json.dumps(said).encode()
    return Queues(log).answer(method, path.split("/"), query, body)


def test_a_queue_says_how_deep_it_is_and_who_has_what(log: Log) -> None:
    status, (found,) = ask(log, "GET", "queues")
    assert (status, found["name"], found["depth"], found["in_flight"]) == (200, "mail", 4, 2)
    assert [one["in_flight"] for one in found["consumers"]] == [2]
    assert found["oldest_ms"] == next(log.read("mail", offset=2)).timestamp_ms
    assert ask(log, "GET", "queues/mail") == (200, found)


def test_messages_that_wait_are_shown(log: Log) -> None:
    status, found = ask(log, "GET", "queues/mail/messages", limit="1")
    assert (status, [one["value"] for one in found]) == (200, ["m2"])


def test_a_purge_leaves_what_consumers_have(log: Log) -> None:
    assert ask(log, "POST", "queues/mail/purge", {}) == (200, {"queue": "mail", "purged": 2})
    _, found = ask(log, "GET", "queues/mail")
    assert (found["depth"], found["in_flight"], found["dropped"]) == (2, 2, 2)


@pytest.mark.parametrize(
    ("method", "path", "said", "status", "name"),
    [
        ("GET", "queues/none", None, 404, "UnknownQueue"),
        ("GET", "queues/mail/other", None, 404, "NotFound"),
        ("POST", "queues/mail/move", {"topic": "none"}, 404, "UnknownTopic"),
        ("POST", "queues/mail/retry", {"limit": "all"}, 422, "UsageError"),
        ("POST", "queues/mail/replay", {"name": "mail"}, 422, "InvalidSetting"),
        ("POST", "queues/mail/replay", {"name": "new", "time_ms": "now"}, 422, "UsageError"),
        ("POST", "queues/mail/purge", [], 422, "UsageError"),
    ],
)
def test_what_cannot_be_done_is_said(method: str, path: str, said: Any, status: int, name: str, log: Log) -> None:
    found, answer = ask(log, method, path, said)
    assert (found, answer["error"]) == (status, name)


def test_a_share_group_has_a_lag_among_the_groups(log: Log) -> None:
    groups = [DescribedGroup("mail", "Stable", "share", "", kind="share")]
    nothing: Any = lambda *_: []  # noqa: E731
    sources = Sources(lambda: groups, nothing, nothing, nothing)
    (found,) = Operations(log, sources).groups({})
    assert (found["name"], found["members"], found["lag"]) == ("mail", 1, 4)


def test_looking_at_a_queue_needs_less_than_changing_it() -> None:
    (seen,), (read,), (changed,) = (
        needs_of(method, path.split("/"))
        for method, path in (("GET", "queues/mail"), ("GET", "queues/mail/messages"), ("POST", "queues/mail/purge"))
    )
    assert (seen.operation, read.operation, changed.operation) == (Operation.DESCRIBE, Operation.ALTER, Operation.ALTER)
