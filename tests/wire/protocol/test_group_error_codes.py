import pytest

from headwater import errors
from headwater.wire.protocol.group_error_codes import group_error_code


@pytest.mark.parametrize(
    "error, name",
    [
        (None, "none"),
        (errors.LogClosed(), "coordinator_not_available"),
        (errors.DiskFull("t", 0), "coordinator_not_available"),
        (errors.PartitionOffline("t", 0, "disk"), "coordinator_not_available"),
        (errors.UnavailableError("later"), "coordinator_not_available"),
        (errors.UnknownMember("who"), "unknown_member_id"),
        (errors.FencedMember("who"), "fenced_instance_id"),
        (errors.StaleGeneration("old"), "illegal_generation"),
        (errors.RebalanceUnderWay("wait"), "rebalance_in_progress"),
        (errors.UnknownTopic("t"), "unknown_topic_or_partition"),
        (errors.InvalidGroup("", "it is empty"), "invalid_group_id"),
    ],
)
def test_a_client_learns_what_to_do(error: errors.HeadwaterError | None, name: str) -> None:
    assert group_error_code(error).name == name
