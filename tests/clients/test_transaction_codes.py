"""Error codes of transactions, of an older and of a newer client: those that Apache Kafka 4.3 answered.

HEADWATER_TEST_BROKER=kafka holds Apache Kafka against them.
"""

import json
from pathlib import Path

import pytest

from tests.clients.raw_producer import NEW, OLD, TRANSACTION_KEY, RawProducer
from tests.clients.transaction_scenarios import SCENARIOS
from tests.wire.raw_client import RawClient

EXPECTED: dict[str, dict[str, list[str]]] = json.loads(Path(__file__).with_suffix(".json").read_text())


def test_every_scenario_has_answers_and_every_answer_a_scenario() -> None:
    assert EXPECTED.keys() == SCENARIOS.keys()


@pytest.mark.parametrize("generation", ["old", "new"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_producer_is_answered_as_by_apache_kafka(scenario: str, generation: str, bootstrap: str, topic: str) -> None:
    host, _, port = bootstrap.partition(":")
    with RawClient(host, int(port)) as client:
        producer = RawProducer(client, f"id-{topic}", NEW if generation == "new" else OLD, topic)
        producer.find_coordinator(producer.transactional_id, TRANSACTION_KEY)
        assert SCENARIOS[scenario](producer) == EXPECTED[scenario][generation]
