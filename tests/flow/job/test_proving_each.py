"""Views are proved one by one: whatever keeps one from being proved, the others are."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import functions as f

import headwater as hw
from headwater.flow.proof.proofs import Unproved, prove_each
from headwater.flow.proof.verification import PROVED, UNPROVABLE
from headwater.flow.run.app_tester import AppTester
from tests.flow.job.failing_ways import obeying

pytestmark = [pytest.mark.timeout(900), pytest.mark.on_spark]


@pytest.mark.parametrize(("knob", "why"), [("exit", "a Python worker of Spark ended"), ("raise", "no such title: 1")])
def test_a_function_that_fails_in_the_proof_of_one_view_leaves_the_others_their_proof(
    tester: Callable[[hw.App], AppTester], tmp_path: Path, knob: str, why: str
) -> None:
    file = str(tmp_path / "knob")
    declared = hw.App("shop", shards=1)
    orders = declared.stream("orders", "id long, amount long")
    checked = f.udf(lambda id: obeying(file, id), "long")
    declared.view(key="id", name="checked")(lambda: orders.with_columns(checked=checked("id")).latest("id"))
    declared.view(key="id", name="latest")(lambda: orders.latest("id"))
    app = tester(declared)
    app.feed("orders", [{"id": 1, "amount": 5}])
    app.run()
    Path(file).write_text(knob)
    found = list(prove_each(app.app, [], app.session, app.node.data, app.node.kafka_address, direct=True))
    assert [(one.view, one.result) for one in found] == [("checked", UNPROVABLE), ("latest", PROVED)]
    assert isinstance(found[0], Unproved)
    assert why in found[0].why
