from datetime import timedelta

import pytest

from tests.wire.group_requests import Caller, versions_of

VERSIONS = versions_of("elect_leaders")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_leader_stays(version: int, caller: Caller) -> None:
    asked = [{"topic": "orders", "partitions": (0, 99)}]
    answer = caller.ask("elect_leaders", version, election_type=0, topic_partitions=asked, timeout=timedelta(seconds=1))
    (orders,) = answer.replica_election_results
    codes = [one.error_code.name for one in orders.partition_result]
    assert (orders.topic, codes) == ("orders", ["election_not_needed", "unknown_topic_or_partition"])


@pytest.mark.parametrize("version", VERSIONS)
def test_of_all_partitions_none_has_another_leader(version: int, caller: Caller) -> None:
    answer = caller.ask("elect_leaders", version, election_type=0, topic_partitions=None, timeout=timedelta(seconds=1))
    assert answer.replica_election_results == ()


def test_an_unknown_election_is_refused(caller: Caller) -> None:
    answer = caller.ask("elect_leaders", 2, election_type=7, topic_partitions=None, timeout=timedelta(seconds=1))
    assert answer.error_code.name == "invalid_request"
