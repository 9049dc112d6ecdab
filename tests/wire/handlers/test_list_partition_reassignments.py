from datetime import timedelta

from tests.wire.group_requests import Caller


def test_no_partition_is_being_moved(caller: Caller) -> None:
    answer = caller.ask("list_partition_reassignments", topics=None, timeout=timedelta(seconds=1))
    assert (answer.error_code, answer.topics) == (0, ())
