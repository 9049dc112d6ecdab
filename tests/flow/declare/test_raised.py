"""An error names the line of the user's code that it came from."""

from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import InvalidDeclaration
from headwater.flow.declare.checks.raised import raised_in, raised_in_worker
from headwater.flow.declare.stream import Table
from headwater.flow.declare.topology.graph import plan
from headwater.flow.plan.explanations import explain

WORKER = """\
org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/env/lib/python3.11/site-packages/pyspark/worker.py", line 2000, in main
    process()
  File "/app/shop/currencies.py", line 12, in rate
    return RATES[code]
           ~~~~~^^^^^^
{raised}

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""


@pytest.mark.parametrize(
    "raised, said",
    [
        ("KeyError: 'EUX'", "KeyError: 'EUX'"),
        ("shop.NoSuchCurrency: EUX", "NoSuchCurrency: EUX"),
        ("AssertionError", "AssertionError"),
    ],
)
def test_an_error_in_a_function_of_the_user_is_told_with_its_file_line_and_message(raised: str, said: str) -> None:
    message = explain(RuntimeError(WORKER.format(raised=raised)))
    assert message == f"currencies.py:12, in rate(): {said}"


def test_a_traceback_of_libraries_alone_has_no_line_of_the_user() -> None:
    text = WORKER.format(raised="KeyError: 'EUX'").replace("/app/shop/", "/env/lib/python3.11/site-packages/")
    assert raised_in_worker(text) is None
    assert explain(RuntimeError(text)) == "KeyError: 'EUX'"


def nowhere() -> str:
    return {"a": "b"}["c"]


def test_the_innermost_line_that_is_not_of_a_library_counts() -> None:
    with pytest.raises(KeyError) as caught:
        nowhere()
    found = raised_in(caught.value)
    assert found is not None
    assert (Path(found.place.file).name, found.function) == ("test_raised.py", "nowhere")


def test_an_error_in_the_function_of_a_view_names_file_line_and_function() -> None:
    app = hw.App("shop")
    orders = app.stream("orders", "id string")

    @app.view(key="id")
    def latest() -> Table:
        return orders.latest(nowhere())

    with pytest.raises(InvalidDeclaration, match=r"view latest \(.*\): test_raised\.py:\d+, in nowhere\(\): KeyError"):
        plan(app, explain)


def test_what_spark_has_against_its_settings_is_said_without_the_layers_around_it() -> None:
    text = (
        "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
        ": org.apache.spark.SparkException: spark.dynamicAllocation.minExecutors cannot be negative!\n"
        "\tat org.apache.spark.SparkContext.<init>(SparkContext.scala:689)\n"
    )
    assert explain(Exception(text)) == "spark.dynamicAllocation.minExecutors cannot be negative!"
