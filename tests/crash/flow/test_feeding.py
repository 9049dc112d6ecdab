"""The rows that killed jobs are fed reach every shard of the apps."""

from random import Random

import pyarrow as pa
import pytest

from headwater.flow.operators.spark_hashes import shard_hashes
from headwater.flow.state.shard import shard_of
from tests.crash.flow import model, shop
from tests.crash.flow.feeding import HOMES, Fed, Feed

ROUNDS, ROWS_PER_ROUND = 4, 90


@pytest.fixture(scope="module", params=range(1, 5))
def rounds(request: pytest.FixtureRequest) -> list[list[Fed]]:
    """All that was fed until the end of each round."""
    feed = Feed(Random(request.param))
    return [[*feed.fed, *feed.more(ROWS_PER_ROUND)] for _ in range(ROUNDS)]


def shards_of(cities: list[str]) -> set[int]:
    return set(shard_of(shard_hashes([pa.array(cities)], len(cities)), shop.SHARDS).tolist())


def test_customers_live_in_cities_of_every_shard(rounds: list[list[Fed]]) -> None:
    lived_in = [row["city"] for fed in rounds for row in model.customers_of(fed) if row["city"] is not None]
    assert shards_of(lived_in) == set(range(shop.SHARDS))


def test_every_shard_pairs_customers_with_a_city_that_is_there(rounds: list[list[Fed]]) -> None:
    paired = [row["city"] for fed in rounds for row in model.governed_of(fed)]
    assert shards_of(paired) == set(range(shop.SHARDS))


def test_each_shard_has_more_than_one_city() -> None:
    for shard in range(shop.SHARDS):
        assert len({home for home in HOMES if home is not None and shards_of([home]) == {shard}}) > 1
