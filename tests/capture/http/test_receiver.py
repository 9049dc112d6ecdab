"""Requests to topics and hooks: the right status, and nothing half-written."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.capture.http.hooks import Hook, Hooks
from headwater.capture.http.receiver import UNDER_WAY_MAX, Receiver
from headwater.clock import ManualClock
from headwater.errors import DiskFull, InvalidCapture, PartitionOffline
from headwater.log.log import Log
from headwater.log.storage import MemoryStorage
from tests.capture.http.signing import SECRET, signed

JSON = {"content-type": "application/json"}
LINES = {"content-type": "application/x-ndjson"}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def log(clock: ManualClock) -> Iterator[Log]:
    with Log.open("data", storage=MemoryStorage(clock), clock=clock) as opened:
        opened.create_topic("orders")
        yield opened


@pytest.fixture
def receiver(log: Log, tmp_path: Path) -> Receiver:
    Hooks(tmp_path).put(Hook(name="pay", topic="orders", scheme="standard", secrets=(SECRET,), key="id"))
    return Receiver(log, tmp_path)


def post(receiver: Receiver, path: str, body: bytes, headers: dict[str, str], **query: str) -> tuple[int, Any, Any]:
    return receiver.receive(path.split("/"), query, headers, body)


def values(log: Log) -> list[bytes | None]:
    return [record.value for record in log.read("orders")]


def test_what_is_posted_is_stored_and_answered_with_where(receiver: Receiver, log: Log, clock: ManualClock) -> None:
    status, said, _ = post(receiver, "topics/orders", b'{"id": 1}\n{"id": 2}', LINES, key="id")
    assert (status, said) == (
        200,
        {
            "topic": "orders",
            "records": 2,
            "position": "orders/0@1",
            "stored": [{"partition": 0, "first": 0, "last": 1}],
        },
    )
    records = list(log.read("orders"))
    assert [(record.key, record.value) for record in records] == [(b"1", b'{"id": 1}'), (b"2", b'{"id": 2}')]
    assert {record.timestamp_ms for record in records} == {clock.now_ms()}


def test_one_bad_line_refuses_the_whole_request(receiver: Receiver, log: Log) -> None:
    assert post(receiver, "topics/orders", b"1\nnot\n3", LINES)[0] == 400
    assert values(log) == []


def test_an_idempotency_key_is_stored_once(receiver: Receiver, log: Log) -> None:
    headers = {**JSON, "idempotency-key": "abc"}
    first = post(receiver, "topics/orders", b"1", headers)
    again = post(receiver, "topics/orders", b"1", headers)
    assert (first[:2], first[2], again[2]) == (again[:2], {}, {"idempotent-replayed": "true"})
    assert post(receiver, "topics/orders", b"2", headers)[0] == 422
    assert post(receiver, "topics/orders", b"1", {**JSON, "idempotency-key": "abd"})[0] == 200
    assert values(log) == [b"1", b"1"]


@pytest.mark.parametrize("key", ["", "x" * 256, "a\nb"])
def test_an_idempotency_key_that_is_none_is_refused(receiver: Receiver, log: Log, key: str) -> None:
    assert post(receiver, "topics/orders", b"1", {**JSON, "idempotency-key": key})[0] == 400
    assert values(log) == []


def test_a_signed_webhook_is_stored_and_a_replay_of_it_is_not(receiver: Receiver, log: Log, clock: ManualClock) -> None:
    body = b'{"id": "a"}'
    headers = {**JSON, **signed("standard", body, seconds=clock.now_ms() // 1000)}
    assert post(receiver, "hooks/pay", body, headers)[0] == 200
    clock.advance(60_000)
    status, _, answered = post(receiver, "hooks/pay", body, headers)
    assert (status, answered) == (200, {"idempotent-replayed": "true"})
    clock.advance(300_000)
    assert post(receiver, "hooks/pay", body, headers)[0] == 401
    (record,) = log.read("orders")
    assert (record.key, record.value) == (b"a", body)


def test_the_same_delivery_signed_again_later_is_the_same(receiver: Receiver, log: Log, clock: ManualClock) -> None:
    """As senders do it that got no answer the first time."""
    for _ in range(2):
        headers = {**JSON, **signed("standard", b'{"id": "a"}', seconds=clock.now_ms() // 1000)}
        assert post(receiver, "hooks/pay", b'{"id": "a"}', headers)[0] == 200
        clock.advance(600_000)
    assert len(values(log)) == 1


def test_an_unsigned_or_wrongly_signed_webhook_leaves_nothing(receiver: Receiver, log: Log, clock: ManualClock) -> None:
    wrong = signed("standard", b"1", secret="another secret of some length", seconds=clock.now_ms() // 1000)
    for headers in (JSON, {**JSON, **wrong}, {**JSON, **dict.fromkeys(wrong, "x")}):
        status, said, _ = post(receiver, "hooks/pay", b"1", headers)
        assert (status, SECRET in said["message"]) == (401, False)
    assert values(log) == []


@pytest.mark.parametrize(
    "path, headers, status",
    [
        ("topics/missing", JSON, 404),
        ("topics/_schemas", JSON, 403),
        ("topics/__consumer_offsets", JSON, 403),
        ("topics/../x", JSON, 404),
        ("topics", JSON, 404),
        ("topics/orders/more", JSON, 404),
        ("hooks/missing", JSON, 404),
        ("hooks/../pay", JSON, 404),
        ("topics/orders", {"content-type": "text/html"}, 415),
    ],
)
def test_what_cannot_be_taken_has_a_status_and_a_sentence(
    receiver: Receiver, log: Log, path: str, headers: dict[str, str], status: int
) -> None:
    found, said, _ = post(receiver, path, b"1", headers)
    assert (found, said["error_code"], bool(said["message"])) == (status, status, True)
    assert values(log) == []


def test_names_of_hooks_are_not_disclosed_without_a_secret(receiver: Receiver) -> None:
    assert "pay" not in post(receiver, "hooks/other", b"1", JSON)[1]["message"]


def test_a_record_larger_than_the_topic_takes_is_refused(receiver: Receiver, log: Log) -> None:
    log.alter_topic("orders", {"max.message.bytes": "1000"})
    status, said, _ = post(receiver, "topics/orders", json.dumps("x" * 2000).encode(), JSON)
    assert (status, values(log)) == (413, [])
    assert "max.message.bytes" in said["message"]


@pytest.mark.parametrize("policy", ["block", "reject"])
def test_a_full_topic_pushes_back_where_a_producer_would_wait(receiver: Receiver, log: Log, policy: str) -> None:
    log.alter_topic("orders", {"retention.bytes": "1000", "headwater.full.policy": policy})
    large = json.dumps("x" * 800).encode()
    assert post(receiver, "topics/orders", large, JSON)[0] == 200
    for headers in (JSON, {**JSON, "idempotency-key": "k"}):
        status, said, answered = post(receiver, "topics/orders", large, headers)
        assert (status, answered) == (429, {"retry-after": "10"})
        assert "is full" in said["message"]
    assert values(log) == [large]


@pytest.mark.parametrize(
    "error, status",
    [(DiskFull("orders", 0), 507), (PartitionOffline("orders", 0, "EIO"), 503), (RuntimeError("unforeseen"), 500)],
)
def test_what_the_disk_refuses_is_an_error(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    def fail(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(receiver._requests, "_append", fail)
    found, said, _ = post(receiver, "topics/orders", b"1", JSON)
    assert (found, "unforeseen" in said["message"]) == (status, False)


def test_more_at_once_than_can_be_stored_must_retry_later(receiver: Receiver) -> None:
    for _ in range(UNDER_WAY_MAX):
        receiver._slots.acquire()
    assert post(receiver, "topics/orders", b"1", JSON)[::2] == (429, {"retry-after": "1"})
    receiver._slots.release()
    assert post(receiver, "topics/orders", b"1", JSON)[0] == 200


def test_a_hook_is_kept_where_only_its_owner_can_read_it(tmp_path: Path) -> None:
    hook = Hook(name="pay", topic="t", scheme="github", secrets=(SECRET,))
    Hooks(tmp_path).put(hook)
    assert (tmp_path / "hooks" / "pay.json").stat().st_mode & 0o777 == 0o600
    assert Hooks(tmp_path).get("pay") == hook
    assert SECRET not in repr(hook)
    Hooks(tmp_path).remove("pay")
    assert Hooks(tmp_path).names() == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "../x"},
        {"scheme": "none"},
        {"secrets": ()},
        {"secrets": ("short",)},
        {"secrets": ("whsec_not base64!",)},
    ],
)
def test_a_hook_without_a_secret_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidCapture):
        Hook(**{"name": "pay", "topic": "t", "scheme": "standard", "secrets": (SECRET,), **wrong})
