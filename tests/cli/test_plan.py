"""Apps whose bodies are SQL text: nothing here starts Spark."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pyspark import SparkContext

from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.commit.job_identity import identify
from headwater.flow.deploy.kept_outputs import PLAN
from headwater.flow.plan import growth_estimates
from tests.cli.conftest import Terminal
from tests.flow.job.kept_jobs import kept_job

SHOP = '''
import headwater as hw
from pyspark.sql import functions as f

app = hw.App("shop")
orders = app.stream("orders", "id string, amount long, currency string")

@app.view(key="currency")
def revenue():
    """Revenue per currency."""
    return orders.where("amount > 10").by("currency").agg("sum(amount) as revenue")
'''
COLUMNS = (
    SHOP
    + """
@app.topic("big-orders")
def big():
    return orders.where(f.col("amount") > 100)
"""
)


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is when a command begins, whatever other tests have left running in this process."""
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)


@pytest.fixture
def shop(terminal: Terminal) -> Path:
    location = terminal.folder / "shop_to_plan.py"
    location.write_text(SHOP)
    return location


def test_the_plan_is_printed_in_words(terminal: Terminal, shop: Path) -> None:
    said = terminal.type("plan", str(shop))
    assert (said.code, said.errors) == (0, "")
    assert said.output.startswith("app shop  (shop_to_plan.py:5)\n\njob orders, consumer group shop.orders\n")
    assert "aggregate by currency: sum(amount) as revenue  [state revenue]" in said.output


KEPT = """
import headwater as hw

app = hw.App("shop")
orders = app.stream("orders", "id string, user string, at timestamp", time="at")
app.view(key="id", name="all_orders")(lambda: orders.where("id <> '0'").latest("id"))
app.view(key="user", name="users")(lambda: orders.by("user").agg("count(*) as n"))
app.view(key="user", name="lately")(lambda: orders.by("user").agg("count(*) as n", keep="30 days"))
"""


def test_state_that_grows_for_ever_is_estimated_from_the_log(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = terminal.folder / "growing.py"
    shop.write_text(KEPT)
    said = terminal.type("plan", str(shop)).output
    assert "a row for each id that ever comes; not estimated: there is no log yet" in said
    lines = [f'{{"id": "{number}", "user": "{number % 7}", "at": "2026-03-01T00:00:00Z"}}' for number in range(400)]
    assert terminal.type("topic", "create", "orders", "--partitions", "2").code == 0
    said = terminal.type("plan", str(shop)).output
    assert "a row for each user that ever comes; not estimated: topic orders has no records yet" in said
    assert terminal.type("produce", "orders", stdin="\n".join(lines)).code == 0
    said = terminal.type("plan", str(shop)).output
    assert re.search(r"a row for each id that ever comes; 399 rows and \d+\.\d kB by now, before compression\n", said)
    assert re.search(r"a row for each user that ever comes; 7 rows and \d+ B by now", said)
    assert "lately  " not in said.partition("grows for ever")[2], "its keys end"
    monkeypatch.setattr(growth_estimates, "RECORDS_MAX", 80)
    said = terminal.type("plan", str(shop)).output
    found = re.search(r"each id that ever comes; about (\d+) rows .* estimated from (\d+) of 400 records", said)
    assert found is not None
    read = int(found[2])
    assert 60 <= read <= 80, "its share of each partition, rounded down at each of eight places"
    assert read < int(found[1]) <= 400
    assert re.search(r"each user that ever comes; about 7 rows", said)


def test_a_plan_leaves_nothing_behind(terminal: Terminal, shop: Path) -> None:
    terminal.type("plan", str(shop))
    assert not terminal.data.exists()


def test_scripts_get_the_plan_as_json(terminal: Terminal, shop: Path) -> None:
    (job,) = terminal.type("plan", str(shop), "--json").json["jobs"]
    assert job["group"] == "shop.orders"
    assert job["outputs"][0] | {"id": "", "place": "", "made_from": ""} == {
        "id": "",
        "kind": "view",
        "name": "revenue",
        "key": ["currency"],
        "where": "the data directory",
        "promise": "exactly once",
        "doc": "Revenue per currency.",
        "place": "",
        "made_from": "",
        "columns": "",
        "verdict": "",
        "why": "",
    }


def test_a_picture_is_written_to_a_file(terminal: Terminal, shop: Path) -> None:
    said = terminal.type("plan", str(shop), "--format", "svg", "--output", "shop.svg")
    assert (said.code, said.output, said.errors) == (0, "", "headwater: wrote shop.svg\n")
    root = ElementTree.parse(terminal.folder / "shop.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"


def test_mermaid_is_printed_for_documents(terminal: Terminal, shop: Path) -> None:
    assert terminal.type("plan", str(shop), "--format", "mermaid").output.startswith("flowchart LR\n")


def test_a_mistake_in_the_app_is_one_line_with_its_location(terminal: Terminal, shop: Path) -> None:
    shop.write_text(SHOP.replace("by(", "by().agg('x') or by("))
    said = terminal.type("plan", str(shop))
    assert said.code == 1
    assert said.errors.startswith("headwater: by() at shop_to_plan.py:11 needs names of columns.")
    assert said.errors.count("\n") == 1


def test_without_spark_columns_of_pyspark_are_refused_with_a_way_out(terminal: Terminal, shop: Path) -> None:
    shop.write_text(COLUMNS)
    said = terminal.type("plan", str(shop), "--no-spark")
    assert said.code == 1
    assert said.errors == (
        "headwater: app shop uses PySpark columns, which only a Spark session can make. "
        "Leave --no-spark away, or write the columns as SQL text.\n"
    )


def test_an_earlier_run_is_compared_with_unless_spark_is_not_wanted(terminal: Terminal, shop: Path) -> None:
    kept_job(terminal.data, "shop", "orders")
    said = terminal.type("plan", str(shop), "--no-spark", "--json").json
    assert said["jobs"][0]["outputs"][0]["verdict"] == ""


REGISTERED = """\
import headwater as hw
app = hw.App("shop")
orders = app.stream("orders", format="avro")
app.view(key="id", name="latest")(lambda: orders.latest("id"))
"""


def test_before_the_first_run_columns_of_a_registry_are_left_open(terminal: Terminal) -> None:
    (terminal.folder / "shop.py").write_text(REGISTERED)
    ran = terminal.type("plan", "shop.py")
    assert ran.code == 0, ran.errors
    assert "topic orders, avro: columns of the schema that is registered for it, which is not known yet" in ran.output
    assert ran.errors.startswith("headwater: columns that a registry has are not shown: there is no data directory")
    assert not terminal.data.exists()


def test_all_mistakes_are_shown_at_once(terminal: Terminal) -> None:
    (terminal.folder / "shop.py").write_text(
        REGISTERED.replace('format="avro"', '"id long"')
        + 'app.view(key="id", name="a")(lambda: orders.where("idd > 1").latest("id"))\n'
        + 'app.view(key="id", name="b")(lambda: orders.latest("idn"))\n'
    )
    ran = terminal.type("plan", "shop.py")
    assert (ran.code, ran.output) == (1, "")
    assert ran.errors.splitlines() == [
        "headwater: where at shop.py:5: there is no column idd; did you mean id?",
        "headwater: latest at shop.py:6: there is no column idn; did you mean id?",
    ]


def test_what_an_app_no_longer_declares_is_listed_with_the_way_to_remove_it(terminal: Terminal) -> None:
    (terminal.folder / "shop.py").write_text(REGISTERED.replace('format="avro"', '"id long"'))
    folder = JobFolder(terminal.data / "flows" / "shop" / "clicks")
    identify(folder, app="shop", job="clicks", cluster="one", shards=2)
    folder.write(PLAN, {"outputs": {"revenue": {"kind": "view"}}, "operators": {}})
    ran = terminal.type("plan", "shop.py", "--no-spark")
    assert ran.output.endswith(
        "no longer declared\n  view revenue is no longer declared; it stays as it is until "
        '"headwater view drop shop.revenue"\n'
    )
