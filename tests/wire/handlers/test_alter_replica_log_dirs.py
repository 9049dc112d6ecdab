import pytest

from tests.wire.group_requests import Caller, versions_of
from tests.wire.running import RunningServer


@pytest.mark.parametrize("version", versions_of("alter_replica_log_dirs"))
def test_a_partition_is_where_it_is(version: int, caller: Caller, group_server: RunningServer) -> None:
    here = str(group_server.log.path.absolute())
    orders, other = {"name": "orders", "partitions": (0,)}, {"name": "other", "partitions": (0,)}
    dirs = [{"path": here, "topics": [orders, other]}, {"path": "/elsewhere", "topics": [orders]}]
    results = caller.ask("alter_replica_log_dirs", version, dirs=dirs).results
    codes = [(one.topic_name, one.partitions[0].error_code.name) for one in results]
    assert codes == [
        ("orders", "none"), ("other", "unknown_topic_or_partition"), ("orders", "log_dir_not_found")
    ]  # fmt: skip
