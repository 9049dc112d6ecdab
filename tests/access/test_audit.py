"""The audit topic: what was refused and changed, counted, bounded, and without a secret."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from headwater.access import audit as audit_module
from headwater.access.acls import Operation, ResourceType
from headwater.access.audit import CHANGED, DENIED, FAILED_LOGIN, TEXT_MAX, Audit, Event
from headwater.log.log import Log
from headwater.log.storage.memory import MemoryStorage
from headwater.log.topic import AUDIT_TOPIC
from tests.wire.logins import PASSWORD, add_user, allow, guarded_server, log_in, logged_in
from tests.wire.permissions.test_matrix import Row, request_of
from tests.wire.raw_client import RawClient, batch
from tests.wire.requests import produce


@pytest.fixture
def log() -> Iterator[Log]:
    log = Log.open("data", storage=MemoryStorage())
    yield log
    log.close()


def rows(log: Log) -> list[dict[str, Any]]:
    return [json.loads(record.value or b"") for record in log.read(AUDIT_TOPIC, 0, offset=0)]


FRESH = {"name": "made", "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
DENIAL = Event(DENIED, "User:eve", "127.0.0.9", "produce", "WRITE", "TOPIC:orders")


def test_the_same_events_are_one_record_with_their_number(log: Log) -> None:
    audit = Audit(log)
    for _ in range(3):
        audit.note(DENIAL)
    audit.start()
    audit.stop()
    (row,) = rows(log)
    assert {name: row[name] for name in ("what", "principal", "host", "api", "operation", "resource", "times")} == {
        "what": "denied", "principal": "User:eve", "host": "127.0.0.9", "api": "produce", "operation": "WRITE",
        "resource": "TOPIC:orders", "times": 3,
    }  # fmt: skip


def test_events_beyond_the_bound_are_counted(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "WAITING_MAX", 2)
    audit = Audit(log)
    for number in range(5):
        audit.note(DENIAL._replace(resource=f"TOPIC:{number}"))
    audit.start()
    audit.stop()
    assert [row["times"] for row in rows(log)] == [1, 1, 3]


def test_a_long_name_is_cut_before_it_waits(log: Log) -> None:
    audit = Audit(log)
    audit.note(DENIAL._replace(resource="TOPIC:" + "a" * 30_000))
    assert {len(event.resource) for event in audit._waiting} == {TEXT_MAX}


def test_refusals_failed_logins_and_changes_of_a_port_are_there_and_no_password_is() -> None:
    with guarded_server() as server:
        server.log.create_topic("orders")
        add_user(server, "eve")
        with logged_in(server, "eve") as eve:
            eve.call(produce("orders", batch(b"not mine")))
        with RawClient(server.host, server.port) as client:
            assert log_in(client, "eve", "wrong password").error_code is ErrorCode.sasl_authentication_failed
        allow(server, "User:alice", Operation.CREATE, ResourceType.CLUSTER)
        with logged_in(server, "alice") as alice:
            made = alice.call(request_of(Row("create_topics", fields=FRESH), 5, server.log))
            assert made.topics[0].error_code is ErrorCode.none
        server.security.audit.stop()
        found = {(row["what"], row.get("principal", ""), row.get("resource", "")) for row in rows(server.log)}
        assert (DENIED, "User:eve", "TOPIC:orders") in found
        assert (FAILED_LOGIN, "", "") in found
        assert (CHANGED, "User:alice", "TOPIC:made") in found
        written = b"".join(record.value or b"" for record in server.log.read(AUDIT_TOPIC, 0, offset=0))
        assert PASSWORD.encode() not in written
        assert b"wrong password" not in written
