"""A change that only a rebuild can carry out is refused until it is asked for: all of its outputs at once."""

from collections.abc import Callable

import pytest

import headwater as hw
from headwater.errors import JobRefused
from headwater.flow.run.app_tester import AppTester

pytestmark = pytest.mark.on_spark

Tester = Callable[[hw.App], AppTester]


def shop(*, least: int) -> hw.App:
    app = hw.App("shop", shards=1)
    orders = app.stream("orders", "id long, amount long")
    large = orders.where(f"amount >= {least}")
    app.view(key="id", name="counts")(lambda: large.by("id").agg("count(*) as n"))
    app.view(key="id", name="sums")(lambda: large.by("id").agg("sum(amount) as total"))
    app.view(key="id", name="latest")(lambda: orders.latest("id"))
    return app


def test_all_changed_outputs_are_refused_in_one_sentence_with_what_to_type(tester: Tester) -> None:
    one = tester(shop(least=1))
    one.feed("orders", [{"id": 1, "amount": 5}, {"id": 1, "amount": 50}])
    one.run()
    changed = tester(shop(least=10))
    with pytest.raises(JobRefused) as caught:
        changed.run()
    said = str(caught.value)
    assert said.startswith("2 outputs have changed since their checkpoint was made: view counts (")
    assert "; view sums (" in said
    assert "latest" not in said
    assert "--rebuild counts --rebuild sums" in said
    with pytest.raises(JobRefused, match=r"view sums \(.*\) has changed .*--rebuild sums"):
        tester(shop(least=10)).run(rebuild=["counts"])
