"""An id that is forgotten while a request for it is on its way."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from headwater.clock import ManualClock
from headwater.errors import InvalidProducerMapping
from headwater.log.log import Log
from headwater.log.storage.memory import MemoryStorage
from headwater.log.transactions.coordinator import Transactions
from headwater.record import TopicPartition

TIMEOUT_MS = 60_000


class Interrupted(dict[str, Any]):
    """After the next look-up something else happens, before the caller has the lock of what it found."""

    interruption: Callable[[], None] | None = None

    def get(self, key: str, default: Any = None) -> Any:
        found, interruption = super().get(key, default), self.interruption
        self.interruption = None
        if interruption is not None:
            interruption()
        return found


@pytest.fixture
def forgetting() -> Transactions:
    """Whose id "id" expires during the next request."""
    clock = ManualClock()
    log = Log.open("nowhere", storage=MemoryStorage(clock), clock=clock)
    log.create_topic("t")
    transactions = Transactions(log)
    transactions.register("id", timeout_ms=TIMEOUT_MS)
    clock.advance(round(timedelta(days=8).total_seconds() * 1000))
    transactions._known = interrupted = Interrupted(transactions._known)
    interrupted.interruption = transactions.look_after
    return transactions


def test_a_producer_that_registers_is_known_also_where_its_id_was_forgotten_meanwhile(forgetting: Transactions) -> None:
    registered = forgetting.register("id", timeout_ms=TIMEOUT_MS)
    assert forgetting.describe("id").producer == registered


def test_a_producer_whose_id_was_forgotten_meanwhile_is_refused(forgetting: Transactions) -> None:
    producer = forgetting._known["id"].transaction.producer
    with pytest.raises(InvalidProducerMapping):
        forgetting.add("id", producer, {TopicPartition("t", 0)})
