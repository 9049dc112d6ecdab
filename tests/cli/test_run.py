"""headwater run: what is said before Spark is started."""

import argparse
import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from headwater import Node, NodeSettings, WireSettings
from headwater.cli.arguments import addresses
from headwater.cli.connection import OwnNode, cluster_of, reach
from headwater.cli.failure import Failure
from headwater.cli.flows import load, remember
from headwater.cli.run import Board, outcome, own_node_warnings, retries_of
from headwater.errors import FlowError, HeadwaterError
from headwater.flow.commit.accounts import Account
from headwater.flow.commit.batch_processor import Progress
from headwater.flow.commit.job_folder import BatchRecord, JobFolder
from headwater.flow.commit.job_identity import identify
from headwater.flow.declare.app import App
from headwater.flow.declare.retries import Retries
from headwater.flow.plan.watermarks import Clocks
from headwater.record import TopicPartition
from headwater.views.locations import known_apps
from tests.cli.conftest import Terminal

APP = """\
import headwater as hw
app = hw.App("shop")
orders = app.stream("orders", "id long")
app.view(key="id", name="latest")(lambda: orders.latest("id"))
"""


def write_app(folder: Path, text: str = APP) -> None:
    (folder / "shop.py").write_text(text)


def test_a_file_that_is_not_there_is_one_sentence(terminal: Terminal) -> None:
    ran = terminal.type("run", "nowhere.py")
    assert (ran.code, ran.output) == (1, "")
    assert ran.errors == "headwater: there is no file nowhere.py. Give the Python or SQL file that declares your app.\n"


def test_a_mistake_in_the_file_names_its_line(terminal: Terminal) -> None:
    write_app(terminal.folder, APP.replace('"id long"', '"id lnog"'))
    ran = terminal.type("run", "shop.py")
    assert ran.code == 1
    assert "shop.py:3" in ran.errors
    assert "lnog" in ran.errors
    assert "Traceback" not in ran.errors


def test_an_app_that_runs_already_is_refused_at_once(terminal: Terminal) -> None:
    write_app(terminal.folder)
    job = JobFolder(terminal.data / "flows" / "shop" / "orders")
    identify(job, app="shop", job="orders", cluster="one", shards=2)
    job.lock()
    try:
        ran = terminal.type("run", "shop.py", "--once")
    finally:
        job.unlock()
    assert ran.code == 1
    assert "job orders is being run by process" in ran.errors
    assert not (terminal.data / "flows" / "spark.log").exists(), "Spark was not started for that"


@pytest.mark.parametrize(
    "view, sentence",
    [
        ('orders.where("idd > 1").latest("id")', "where at shop.py:4: there is no column idd; did you mean id?"),
        ('orders.by("id").agg("count(*) as n").where("m > 1")', "where at shop.py:4: there is no column m; "),
        ('orders.latest({}["id"])', "view latest (shop.py:4): shop.py:4: KeyError: 'id'."),
    ],
)
def test_what_is_wrong_is_one_sentence_before_spark_is_started(terminal: Terminal, view: str, sentence: str) -> None:
    write_app(terminal.folder, APP.replace('orders.latest("id")', view))
    ran = terminal.type("run", "shop.py", "--once")
    assert (ran.code, ran.output) == (1, "")
    assert ran.errors.startswith(f"headwater: {sentence}")
    assert ran.errors.count("\n") == 1
    assert not (terminal.data / "flows" / "spark.log").exists(), "Spark was not started for that"


def test_a_view_that_no_app_has_made_cannot_be_verified(terminal: Terminal) -> None:
    terminal.data.mkdir()
    ran = terminal.type("verify", "latest")
    assert ran.code == 1
    assert 'Run one with "headwater run APP.py"' in ran.errors


def test_the_line_of_a_job_shows_its_watermark_and_idle_partitions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clocks = Clocks({"orders": {0: 90_000_000}})
    idle = frozenset({TopicPartition("orders", 1)})
    record = BatchRecord(7, {}, {}, {"counts": Account(rows_in=5, late=2)}, clocks, 25_000_000, idle)
    board = Board(as_json=True)
    board.tell("orders", Progress(record, 0.5, 1_000_000))
    said = json.loads(capsys.readouterr().out)
    assert (said["watermark"], said["newest"]) == ("1970-01-01T00:00:25Z", "1970-01-01T00:01:30Z")
    assert said["idle"] == ["orders/1"]
    console = Console(file=io.StringIO(), width=200)
    console.print(board._table())
    assert isinstance(console.file, io.StringIO)
    line = console.file.getvalue().splitlines()[1].split()
    assert line == ["orders", "7", "5", "10", "1.0", "MB", "1970-01-01", "00:00:25", "1m", "5s", "1", "2", "0"]


@pytest.mark.parametrize(
    ("failures", "warnings", "once", "asked_by", "code"),
    [
        ({}, [], True, 0, 0),
        ({"orders": FlowError("the database does not answer")}, [], True, 0, 1),
        ({"orders": FlowError("the database does not answer")}, ["made"], False, 15, 1),
        ({}, ["topic ordres was made"], True, 0, 3),
        ({}, ["topic ordres was made"], False, 0, 0),
        ({}, ["topic ordres was made"], False, 15, 143),
    ],
)
def test_the_exit_code_says_how_the_run_ended(
    failures: dict[str, HeadwaterError], warnings: list[str], once: bool, asked_by: int, code: int,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert outcome(failures, warnings, once=once, asked_by=asked_by) == code
    assert ("was failing when the run ended" in capsys.readouterr().err) == bool(failures)


def test_a_node_of_its_own_is_said_and_one_that_was_killed_before_is_a_warning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert own_node_warnings(OwnNode("127.0.0.1:1234", "")) == []
    assert "no node runs on this data directory" in capsys.readouterr().err
    (warning,) = own_node_warnings(OwnNode("127.0.0.1:1234", "process 7 at 127.0.0.1:9092"))
    assert "process 7 at 127.0.0.1:9092" in warning
    assert "warning: the node that served this data directory" in capsys.readouterr().err


def test_a_node_of_its_own_where_the_real_one_could_not_start_is_a_warning(
    terminal: Terminal, node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.type("start", "--data", "other", "--kafka", node.kafka_address)
    sentences: list[str] = []
    with reach(
        argparse.Namespace(kafka=None, data=terminal.folder / "other"),
        started=lambda said: sentences.extend(own_node_warnings(said)),
    ):
        pass
    assert 'the last "headwater start" on this data directory failed: the Kafka port cannot be opened' in sentences[0]
    assert f"warning: {sentences[0]}" in capsys.readouterr().err
    assert outcome({}, sentences, once=True, asked_by=0) == 3


def test_retries_of_the_command_go_before_those_of_the_app() -> None:
    app = App("shop", retries=5, backoff="2 seconds", backoff_max="10 seconds")
    said = argparse.Namespace(retries=None, backoff=None)
    assert retries_of(said, app) is None
    said.retries = 0
    assert retries_of(said, app) == Retries(0, 2000, 10_000)
    said.retries, said.backoff = None, 30.0
    assert retries_of(said, app) == Retries(5, 30_000, 30_000)


def test_executors_of_a_cluster_need_a_log_that_they_can_reach(terminal: Terminal) -> None:
    write_app(terminal.folder)
    ran = terminal.type("run", "shop.py", "--master", "spark://127.0.0.1:7077")
    assert ran.code == 1
    assert ran.errors == (
        "headwater: executors of spark://127.0.0.1:7077 read the log over the network; name it with "
        "--log kafka://HOST:PORT[,...].\n"
    )


def test_the_store_of_a_run_is_that_of_the_commands_after_it(terminal: Terminal) -> None:
    write_app(terminal.folder)
    said = argparse.Namespace(data=terminal.data, file=terminal.folder / "shop.py", app="", kafka=None)
    first = argparse.Namespace(**vars(said), store="postgresql://ada:secret@db/views")
    remember(first, load(first))
    later = argparse.Namespace(**vars(said))
    assert load(later).outputs["latest"].store == "postgresql://ada@db/views"
    known = known_apps(terminal.data)["shop"]
    assert known.stores == (known.store,) == ("postgresql://ada@db/views",)


def test_a_node_that_writes_elsewhere_is_not_taken_for_the_captures_of_an_app(tmp_path: Path) -> None:
    with Node(tmp_path / "broker", NodeSettings(wire=WireSettings(port=0))) as broker:
        asked = argparse.Namespace(data=tmp_path / "data", kafka=addresses(f"kafka://{broker.kafka_address}"))
        with (
            Node(tmp_path / "data", NodeSettings(wire=WireSettings(port=0))),
            pytest.raises(Failure, match=r"its own.*headwater start --log kafka://"),
            reach(asked, captures=True),
        ):
            pass
        beside = NodeSettings(wire=WireSettings(port=0), cluster=broker.kafka_address)
        with Node(tmp_path / "data", beside), reach(asked, captures=True) as address:
            assert address == broker.kafka_address
        with reach(asked, captures=True, alerts=True) as address:  # with a node of its own
            assert address == broker.kafka_address
            assert cluster_of(tmp_path / "data") == broker.kafka_address
