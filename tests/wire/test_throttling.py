"""Quotas at the port: who takes more is told to wait, and is not read from meanwhile; others are not."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from kio.schema.api_versions.v1.request import ApiVersionsRequest
from kio.schema.errors import ErrorCode

from headwater.access.quotas import FETCH, PRODUCE, REQUEST, entity
from headwater.settings import SecuritySettings
from tests.wire.logins import PLAIN, guarded_server, logged_in
from tests.wire.raw_client import RawClient, batch
from tests.wire.requests import fetch, produce
from tests.wire.running import RunningServer, running_server

NO_WAIT_MS = 0


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with guarded_server(replace(PLAIN, super_users=("User:admin", "User:alice"))) as server:
        server.log.create_topic("orders")
        yield server


def throttle_ms(answer: Any) -> int:
    return round(1000 * float(answer.throttle_time.total_seconds()))


def test_who_produces_more_than_its_quota_is_told_to_wait_and_others_are_not(server: RunningServer) -> None:
    server.security.store.change_quota(entity(user="alice"), {PRODUCE: 40_000.0})
    with logged_in(server, "alice") as alice, logged_in(server, "admin") as admin:
        answer = alice.call(produce("orders", batch(bytes(50_000))))
        assert answer.responses[0].partition_responses[0].error_code is ErrorCode.none
        assert throttle_ms(answer) > NO_WAIT_MS
        assert throttle_ms(admin.call(produce("orders", batch(bytes(50_000))))) == NO_WAIT_MS


def test_who_fetches_more_than_its_quota_is_told_to_wait(server: RunningServer) -> None:
    server.security.store.change_quota(entity(user="alice"), {FETCH: 40_000.0})
    with logged_in(server, "alice") as alice:
        assert throttle_ms(alice.call(produce("orders", batch(bytes(50_000))))) == NO_WAIT_MS
        answer = alice.call(fetch("orders", {0: 0}))
        assert answer.responses[0].partitions[0].records
        assert throttle_ms(answer) > NO_WAIT_MS


def test_a_quota_of_requests_counts_the_work_of_every_request(server: RunningServer) -> None:
    with logged_in(server, "alice") as alice:
        assert throttle_ms(alice.call(fetch("orders", {0: 0}))) == NO_WAIT_MS
        server.security.store.change_quota(entity(user="alice"), {REQUEST: 0.0001})
        assert throttle_ms(alice.call(fetch("orders", {0: 0}))) > NO_WAIT_MS


def test_a_quota_of_a_client_id_counts_where_no_client_logs_in() -> None:
    with running_server(security=SecuritySettings()) as server:
        server.log.create_topic("orders")
        server.security.store.change_quota(entity(client_id="test"), {PRODUCE: 40_000.0})
        with RawClient(server.host, server.port) as client:
            assert throttle_ms(client.call(produce("orders", batch(bytes(50_000))))) > NO_WAIT_MS


@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_every_form_of_the_answer_says_how_long(version: int, server: RunningServer) -> None:
    server.security.store.change_quota(entity(user="alice"), {PRODUCE: 40_000.0})
    with logged_in(server, "alice") as alice:
        assert throttle_ms(alice.call(produce("orders", batch(bytes(50_000)), version=version))) > NO_WAIT_MS


def test_the_next_request_is_answered_after_the_wait(server: RunningServer) -> None:
    server.security.store.change_quota(entity(user="alice"), {PRODUCE: 40_000.0})
    with logged_in(server, "alice") as alice:
        assert throttle_ms(alice.call(produce("orders", batch(bytes(45_000))))) > NO_WAIT_MS
        assert alice.call(ApiVersionsRequest()).error_code is ErrorCode.none
