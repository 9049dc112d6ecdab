"""The streaming result is the batch result: for any cut into batches, any interleaving, any batch that comes again."""

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.flow.run.app_tester import AppTester
from headwater.testing import running_node
from tests.flow.engines import engine
from tests.flow.job.shop import order, revenue_of, shop, text
from tests.flow.job.steps import Step, run_steps

EXAMPLES, MANY_EXAMPLES = 4, 30


rows = st.builds(
    lambda number, user, cents, currency, minute: order(
        number, user=user, amount=f"{cents / 100:.2f}", currency=currency, minute=minute
    ),
    st.integers(0, 99), st.integers(0, 4), st.integers(0, 5000), st.sampled_from(["EUR", "USD"]), st.integers(1, 60),
)  # fmt: skip
broken = st.sampled_from([b"", b"{", b'{"amount": "many"}'])
partitions = st.lists(st.lists(st.one_of(rows, rows, rows, broken), max_size=12), min_size=1, max_size=3)
cuts = st.lists(st.tuples(st.tuples(*[st.integers(0, 6)] * 3), st.integers(1, 2)), min_size=1, max_size=4)


def is_row(one: Any) -> bool:
    return isinstance(one, dict)


def steps_of(contents: list[list[Any]], wanted: list[tuple[tuple[int, int, int], int]]) -> list[Step]:
    """Steps that read everything: what the cuts leave over is the last one."""
    left = [len(content) for content in contents]
    steps = []
    for sizes, again in wanted:
        taken = tuple(min(size, rest) for size, rest in zip(sizes, left, strict=False))
        left = [rest - size for rest, size in zip(left, taken, strict=True)]
        if any(taken):
            steps.append(Step(taken, again))
    return [*steps, Step(tuple(left), 1)] if any(left) else steps


def check(contents: list[list[Any]], wanted: list[tuple[tuple[int, int, int], int]]) -> None:
    with TemporaryDirectory() as data, running_node(Path(data)) as node:
        tester = AppTester(shop(), node, engine())
        node.log.create_topic("orders", partitions=len(contents))
        for number, content in enumerate(contents):
            if content:
                tester.feed("orders", [text(one) if is_row(one) else one for one in content], partition=number)
        run_steps(tester, steps_of(contents, wanted))
        good = [one for content in contents for one in content if is_row(one)]
        found = {row["currency"]: (row["orders"], row["revenue"]) for row in tester.rows("revenue")}
        assert found == revenue_of(good)
        assert [tester.prove(view).different for view in ("revenue", "last_order")] == [0, 0]
        big = Counter(row["id"] for row in tester.values("big-orders"))
        assert big == Counter(row["id"] for row in good if row["amount"] > 90)
        account = tester.account("revenue")
        assert account.balanced
        assert account.rows_in == sum(map(len, contents))
        assert account.poisoned == account.rows_in - len(good)


@pytest.mark.slow
@pytest.mark.timeout(600)
@settings(max_examples=EXAMPLES)
@given(contents=partitions.filter(lambda found: any(found)), wanted=cuts)
def test_any_cut_and_any_repetition_gives_what_one_batch_query_gives(
    contents: list[list[Any]], wanted: list[tuple[tuple[int, int, int], int]]
) -> None:
    check(contents, wanted)


@pytest.mark.torture
@pytest.mark.timeout(3600)
@settings(max_examples=MANY_EXAMPLES)
@given(contents=partitions.filter(lambda found: any(found)), wanted=cuts)
def test_the_same_for_many(contents: list[list[Any]], wanted: list[tuple[tuple[int, int, int], int]]) -> None:
    check(contents, wanted)
