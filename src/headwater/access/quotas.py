"""Quotas: how much of the node a user or client may take, and how long one who took more has to wait. Pure.

A quota is for a user, a client id, or both; a name of None is the default for all that have none of their own. As in
Kafka the most special one that is set counts:

    user and client, user and any client, user,
    any user and client, any user and any client, any user,
    client, any client
"""

from collections import OrderedDict
from typing import NamedTuple

USER, CLIENT = "user", "client-id"
PRODUCE, FETCH, REQUEST = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
KEYS = {
    PRODUCE: "bytes per second that are produced",
    FETCH: "bytes per second that are fetched",
    REQUEST: "percent of the time of the thread that answers requests",
    "controller_mutation_rate": "created and deleted partitions per second; stored, and not enforced",
    "connection_creation_rate": "connections per second; stored, and not enforced",
}
BURST_SECONDS = 1.0
WAIT_SECONDS_MAX = 30.0
BUCKETS_MAX = 10_000


class Entity(NamedTuple):
    """Whom a quota is for: pairs of "user" or "client-id" and a name, sorted; None is the default."""

    parts: tuple[tuple[str, str | None], ...]


def entity(**parts: str | None) -> Entity:
    """
    >>> entity(user="alice").parts
    (('user', 'alice'),)
    """
    return Entity(tuple(sorted((name.replace("_", "-"), value) for name, value in parts.items())))


def candidates(user: str, client_id: str) -> list[Entity]:
    """The entities that could have the quota of a request, the most special first."""
    return [
        entity(user=user, client_id=client_id),
        entity(user=user, client_id=None),
        entity(user=user),
        entity(user=None, client_id=client_id),
        entity(user=None, client_id=None),
        entity(user=None),
        entity(client_id=client_id),
        entity(client_id=None),
    ]


class Bucket:
    """What a client may still take; below zero what was taken too early."""

    def __init__(self, rate: float, now: float) -> None:
        self.rate, self._left, self._at = rate, rate * BURST_SECONDS, now

    def take(self, amount: float, now: float) -> float:
        """Takes it in any case; returns how many seconds to wait before more may be taken."""
        self._left = min(self.rate * BURST_SECONDS, self._left + (now - self._at) * self.rate) - amount
        self._at = now
        # Debt has a bound, or one large batch under a tiny quota would silence its sender for days.
        self._left = max(self._left, -self.rate * WAIT_SECONDS_MAX)
        return max(0.0, -self._left / self.rate)


class Quotas:
    """All quotas and what was taken of them. On one thread; the quotas themselves are replaced whole."""

    def __init__(self) -> None:
        self._quotas: dict[Entity, dict[str, float]] = {}
        self._buckets: OrderedDict[tuple[str, Entity, str, str], Bucket] = OrderedDict()

    def replace(self, quotas: dict[Entity, dict[str, float]]) -> None:
        self._quotas = quotas

    @property
    def any(self) -> bool:
        return bool(self._quotas)

    def limit(self, key: str, user: str, client_id: str) -> tuple[Entity, float] | None:
        quotas = self._quotas
        for one in candidates(user, client_id):
            found = quotas.get(one)
            if found is not None and key in found:
                return one, found[key]
        return None

    def take(self, key: str, user: str, client_id: str, amount: float, now: float) -> float:
        """How many seconds a client has to wait that takes `amount` now; 0 without a quota."""
        limit = self.limit(key, user, client_id)
        if limit is None:
            return 0.0
        whom, rate = limit
        # Each user and client of a default has a bucket of its own; those of one user's quota share it.
        kinds = {kind for kind, _ in whom.parts}
        name = (key, whom, user if USER in kinds else "", client_id if CLIENT in kinds else "")
        bucket = self._buckets.get(name)
        if bucket is None or bucket.rate != rate:
            bucket = self._buckets[name] = Bucket(rate, now)
            if len(self._buckets) > BUCKETS_MAX:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(name)
        return bucket.take(amount, now)
