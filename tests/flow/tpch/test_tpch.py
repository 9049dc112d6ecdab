"""Small forms of `python -m tests.flow.tpch`, which is run at scale 0.1 by hand, and behind `make torture`."""

from pathlib import Path

import pytest

from examples.tpch.main import QUERIES
from tests.flow.tpch.running import compare
from tests.servers.postgres_cluster import running_cluster

SCALE, POSITIONS = 0.0002, 4


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_query_is_what_postgresql_answers_while_orders_come_and_go(tmp_path: Path) -> None:
    with running_cluster(wal_sender_timeout="0") as cluster:
        found = compare(QUERIES, SCALE, POSITIONS, cluster.url, tmp_path)
    assert found.different == []
    assert [query for query, rows in found.rows.items() if not rows] == []
    assert found.compared == len(QUERIES) * POSITIONS
