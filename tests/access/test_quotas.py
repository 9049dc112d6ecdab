"""Whose quota counts, and that over a while no client takes more than its rate."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.access.quotas import BUCKETS_MAX, FETCH, PRODUCE, WAIT_SECONDS_MAX, Bucket, Entity, Quotas, entity

ORDER = [
    entity(user="alice", client_id="app"),
    entity(user="alice", client_id=None),
    entity(user="alice"),
    entity(user=None, client_id="app"),
    entity(user=None, client_id=None),
    entity(user=None),
    entity(client_id="app"),
    entity(client_id=None),
]
"""As Apache Kafka has it, the most special first."""


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_the_most_special_quota_counts(first: int) -> None:
    quotas = Quotas()
    quotas.replace({one: {PRODUCE: 100.0 + number} for number, one in enumerate(ORDER) if number >= first})
    assert quotas.limit(PRODUCE, "alice", "app") == (ORDER[first], 100.0 + first)


@pytest.mark.parametrize(
    "of",
    [
        entity(user="bob"),
        entity(client_id="other"),
        entity(user="bob", client_id=None),
        entity(user="alice", client_id="other"),
    ],
)
def test_the_quota_of_another_does_not_count(of: Entity) -> None:
    quotas = Quotas()
    quotas.replace({of: {PRODUCE: 1.0}})
    assert quotas.limit(PRODUCE, "alice", "app") is None
    assert quotas.take(PRODUCE, "alice", "app", 10**9, now=0.0) == 0.0


def test_a_quota_of_fetching_is_none_of_producing() -> None:
    quotas = Quotas()
    quotas.replace({entity(user="alice"): {FETCH: 1.0}})
    assert quotas.take(PRODUCE, "alice", "app", 10**9, now=0.0) == 0.0
    assert quotas.take(FETCH, "alice", "app", 10.0, now=0.0) > 0.0


def test_clients_of_one_user_share_the_users_quota_and_users_of_a_default_do_not() -> None:
    quotas = Quotas()
    quotas.replace({entity(user="alice"): {PRODUCE: 100.0}, entity(user=None): {PRODUCE: 100.0}})
    quotas.take(PRODUCE, "alice", "one", 200.0, now=0.0)
    assert quotas.take(PRODUCE, "alice", "another", 1.0, now=0.0) > 0.0
    quotas.take(PRODUCE, "bob", "one", 200.0, now=0.0)
    assert quotas.take(PRODUCE, "carol", "one", 1.0, now=0.0) == 0.0


takes = st.lists(st.tuples(st.floats(0, 500), st.floats(0, 3)), max_size=60)
"""How much a client takes, and how long it thinks before the next time, beside what it is told to wait."""


@given(rate=st.floats(1, 1000), asked=takes)
def test_who_waits_as_told_takes_no_more_than_the_rate_and_one_burst(
    rate: float, asked: list[tuple[float, float]]
) -> None:
    bucket, now, taken = Bucket(rate, 0.0), 0.0, 0.0
    for amount, pause in asked:
        amount = min(amount, rate * WAIT_SECONDS_MAX / 2)  # beyond it the debt has its bound
        now += bucket.take(amount, now) + pause
        taken += amount
    assert taken <= rate * (now + 1.0) + 1e-6 * (taken + 1)


@given(rate=st.floats(0.001, 10), amount=st.floats(0, 1e12))
def test_nobody_waits_for_longer_than_the_bound(rate: float, amount: float) -> None:
    assert Bucket(rate, 0.0).take(amount, 0.0) <= WAIT_SECONDS_MAX * (1 + 1e-9)


def test_made_up_client_ids_cost_bounded_memory() -> None:
    quotas = Quotas()
    quotas.replace({entity(client_id=None): {PRODUCE: 1.0}})
    for number in range(BUCKETS_MAX + 50):
        quotas.take(PRODUCE, "alice", f"client-{number}", 1.0, now=0.0)
    assert len(quotas._buckets) == BUCKETS_MAX


def test_a_changed_quota_counts_from_the_next_request_on() -> None:
    quotas = Quotas()
    quotas.replace({entity(user="alice"): {PRODUCE: 1.0}})
    assert quotas.take(PRODUCE, "alice", "app", 20.0, now=0.0) > 10.0
    quotas.replace({entity(user="alice"): {PRODUCE: 1e6}})
    assert quotas.take(PRODUCE, "alice", "app", 20.0, now=0.0) == 0.0
