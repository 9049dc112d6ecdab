"""A job goes on in another number of shards as if it had always had that many."""

from collections.abc import Callable

import pytest

import headwater as hw
from headwater.flow.deploy.inventory import KeptJob, jobs_in
from headwater.flow.deploy.resharding import NOTE, reshard_job
from headwater.flow.run.app_tester import AppTester
from tests.flow.job.shop import orders, revenue_of, shop


def shards_of(job: KeptJob) -> set[int]:
    return {len(operator.versions()[-1].shards) for operator in job.operators()}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_views_are_right_after_more_and_after_fewer_shards(tester: Callable[[hw.App], AppTester]) -> None:
    shop_tester, rows = tester(shop()), orders(300)
    shop_tester.feed("orders", rows[:100])
    shop_tester.run()
    (job,) = jobs_in(shop_tester.node.data)
    reshard_job(job, 4)
    shop_tester.feed("orders", rows[100:200])
    shop_tester.run()
    assert shards_of(job) == {4}
    # As a crash leaves it: the change is written down, and nothing of it is done. The next run does it.
    job.folder.write(NOTE, {"shards": 1})
    shop_tester.feed("orders", rows[200:])
    shop_tester.run()
    assert shards_of(job) == {1}
    found = {row["currency"]: (row["orders"], row["revenue"]) for row in shop_tester.rows("revenue")}
    assert found == revenue_of(rows)
    newest = {row["user_id"]: row["id"] for row in rows}
    assert {row["user_id"]: row["id"] for row in shop_tester.rows("last_order")} == newest
    assert shop_tester.account("revenue").rows_in == 300
