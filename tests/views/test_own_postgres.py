"""Views in a PostgreSQL that lives with the node: started, stopped and killed with it, and read by other programs."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

import headwater as hw
from headwater.cli.flows import remember_app
from headwater.cli.main import main
from headwater.errors import StoreUnavailable, UnavailableError
from headwater.flow.declare.stream import Table
from headwater.flow.deploy.damage_check import problems as damage_problems
from headwater.flow.local.columns import local_columns
from headwater.flow.local.session import LocalSession
from headwater.flow.run.running_app import RunningApp, RunSettings
from headwater.log.check import check_log
from headwater.log.storage import LocalStorage
from headwater.node import POSTGRESQL, SQLITE, Node
from headwater.settings import HttpSettings, NodeSettings, WireSettings
from headwater.views.locations import view_locations
from headwater.views.mark import Mark
from headwater.views.own_postgres import read_access
from headwater.views.postgres import PostgresStore
from headwater.views.postgres_programs import binaries
from headwater.views.store import open_store
from headwater.views.view import View
from tests.rules.source import ROOT
from tests.waiting import wait_until

pytestmark = [pytest.mark.timeout(180), pytest.mark.skipif(not binaries(), reason="there is no PostgreSQL")]

SETTINGS = NodeSettings(wire=WireSettings(port=0), http=HttpSettings(port=0))
WITH_POSTGRES = NodeSettings(wire=WireSettings(port=0), http=HttpSettings(port=0), views=POSTGRESQL)


@contextmanager
def reachable_folder() -> Iterator[Path]:
    """Where the user that the server runs as can get, also when tests run as root."""
    folder = Path(tempfile.mkdtemp(prefix="headwater-own-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def set_up() -> Iterator[Path]:
    """A data directory whose PostgreSQL was set up, which takes longest."""
    with reachable_folder() as folder:
        with Node(folder / "data", WITH_POSTGRES):
            pass
        yield folder / "data"


@pytest.fixture
def empty() -> Iterator[Path]:
    with reachable_folder() as folder:
        yield folder / "data"


@pytest.fixture
def data(empty: Path, set_up: Path) -> Path:
    subprocess.run(["cp", "-a", set_up, empty], check=True)
    return empty


def write(data: Path, *amounts: int, batch: int = 0) -> None:
    store = open_store(data, "shop")
    rows = pa.table({"country": [f"c{number}" for number in range(len(amounts))], "amount": [*amounts]})
    store.prepare("revenue", rows.schema, ["country"])
    store.write("revenue", Mark("shop.orders", batch, {"orders": {0: batch + 1}}), rows)
    store.close()


def rows(data: Path, sql: str = "SELECT country, amount FROM shop.revenue ORDER BY 1") -> list[tuple[Any, ...]]:
    """As another program reads them, with the URL that is there for it."""
    with psycopg.connect((data / "postgresql" / "url").read_text().strip(), autocommit=True) as connection:
        return connection.execute(sql.encode()).fetchall()


def amounts(data: Path) -> list[object]:
    """As headwater reads them."""
    (location,) = view_locations(data)
    with View(location.open(), "revenue") as view:
        return [row["amount"] for row in view.rows(order="country")]


def server_of(data: Path) -> int:
    return int((data / "postgresql" / "cluster" / "postmaster.pid").read_text().split()[0])


def ended(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def guard_of(process: int) -> int:
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"headwater-guard" in words and str(process).encode() in words:
            return int(file.parent.name)
    raise AssertionError("there is no guard")


def test_views_are_read_by_headwater_and_by_other_programs(data: Path) -> None:
    with Node(data, WITH_POSTGRES) as node:
        assert isinstance(open_store(data, "shop"), PostgresStore)
        write(data, 1, 2)
        assert rows(data) == [("c0", 1), ("c1", 2)]
        assert amounts(data) == [1, 2]
        assert main(["sql", "--data", str(data), "-c", "SELECT sum(amount) FROM revenue"]) == 0
        assert node.views_address == f"127.0.0.1:{read_access(data).port}"  # type: ignore[union-attr]
        server = server_of(data)
    assert ended(server), "it stops with the node"
    assert not (data / "views" / "shop.sqlite").exists()


def test_psql_reads_views_without_a_password_in_its_arguments(data: Path) -> None:
    psql = next(iter(binaries().values())) / "psql"
    if not psql.exists():
        pytest.skip("these programs have no psql")
    with Node(data, WITH_POSTGRES):
        write(data, 7)
        environment = {**os.environ, "PGSERVICEFILE": str(data / "postgresql" / "pg_service.conf")}
        said = subprocess.run(
            [psql, "service=views", "-Atc", "SELECT amount FROM shop.revenue"],
            env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
    assert said.stdout == "7\n"


def test_only_who_has_the_password_may_read_and_no_other_machine_can_ask(data: Path) -> None:
    with Node(data, WITH_POSTGRES) as node:
        write(data, 1)
        host, port = node.views_address.split(":")
        for user in ("reader", "headwater"):
            for password in ("", "wrong"):
                with pytest.raises(psycopg.OperationalError, match="password"):
                    psycopg.connect(host=host, port=port, user=user, password=password, dbname="views")
        assert rows(data, "SHOW listen_addresses") == [("127.0.0.1",)]
        for sql in (
            "UPDATE shop.revenue SET amount = 0",
            "SET default_transaction_read_only TO off; DELETE FROM shop.revenue",
            "CREATE TABLE public.mine (a int)",
        ):
            with pytest.raises(psycopg.Error, match=r"read-only|permission denied"):
                rows(data, sql)
    for name in ("server.json", "url", "pg_service.conf"):
        assert stat.S_IMODE((data / "postgresql" / name).stat().st_mode) == 0o600, name
    assert not (data / "postgresql" / "password.new").exists()


class Command:
    """`headwater start` in a process of its own, which can be killed."""

    def __init__(self, data: Path, *words: str) -> None:
        command = [sys.executable, "-m", "headwater", "start", "--data", str(data), "--kafka", "127.0.0.1:0", "--http",
                   "127.0.0.1:0", "--json", *words]  # fmt: skip
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.said: dict[str, Any] = json.loads(self.process.stdout.readline())


@contextmanager
def started(data: Path, *words: str) -> Iterator[Command]:
    command = Command(data, *words)
    try:
        yield command
    finally:
        command.process.terminate()
        command.process.communicate()


def test_views_survive_a_killed_node_and_the_next_one_finds_them(data: Path) -> None:
    with started(data, "--views", "postgresql") as command:
        write(data, 5)
        server, address = server_of(data), command.said["views"]
        command.process.kill()
        command.process.wait()
        wait_until(lambda: ended(server), "the server has ended, though its node was killed")
    with started(data) as again:
        assert again.said["views"] == address, "who reads views connects where it did before"
        assert rows(data) == [("c0", 5)]
        write(data, 6, batch=1)
        assert amounts(data) == [6]


def test_a_server_that_outlived_its_node_and_its_guard_is_ended_by_the_next_node(data: Path) -> None:
    with started(data, "--views", "postgresql") as command:
        write(data, 5)
        server = server_of(data)
        os.kill(guard_of(server), signal.SIGKILL)
        command.process.kill()
        command.process.wait()
        assert not ended(server)
    with Node(data, SETTINGS):
        assert ended(server)
        assert rows(data) == [("c0", 5)]


def test_a_guard_that_is_late_does_not_stop_the_server_of_the_next_node(data: Path) -> None:
    with started(data, "--views", "postgresql") as command:
        guard = guard_of(server_of(data))
        os.kill(guard, signal.SIGSTOP)
        command.process.kill()
        command.process.wait()
    with Node(data, SETTINGS):
        write(data, 5)
        os.kill(guard, signal.SIGCONT)
        wait_until(lambda: ended(guard), "the guard of the killed node has ended")
        assert rows(data) == [("c0", 5)]


def test_a_server_that_is_killed_is_started_again(data: Path) -> None:
    with Node(data, WITH_POSTGRES):
        write(data, 5)
        server = server_of(data)
        os.kill(server, signal.SIGKILL)

        def answers() -> bool:
            try:
                return rows(data) == [("c0", 5)]
            except psycopg.OperationalError:
                return False

        wait_until(answers, "views are there again")
        assert server_of(data) != server
        write(data, 6, batch=1)
        assert amounts(data) == [6]


def test_an_app_keeps_its_views_there_and_goes_on_after_a_restart(data: Path) -> None:
    app = hw.App("bank", shards=1)
    moves = app.stream("moves", "account long, amount long")

    @app.view(key="account")
    def balances() -> Table:
        return moves.by("account").agg("sum(amount) as amount")

    remember_app(data, app, Path(__file__))
    for round in (1, 2):
        with Node(data, SETTINGS) as node, local_columns():
            if round == 1:
                node.log.create_topic("moves")
            node.log.append("moves", hw.Record(b'{"account": 1, "amount": 5}'))
            running = RunningApp(app, LocalSession.as_spark(), RunSettings(data, node.kafka_address, once=True))
            running.start()
            while not running.wait(0.1):
                pass
            running.stop()
            assert running.failures == {}
            assert rows(data, "SELECT account, amount FROM bank.balances") == [(1, 5 * round)]
    assert damage_problems(data) == [], "a check runs without a node, and so without this database"
    assert check_log(LocalStorage(data)).orphans == []


def test_a_view_without_its_node_is_a_sentence(data: Path) -> None:
    with Node(data, WITH_POSTGRES):
        write(data, 5)
    with pytest.raises(StoreUnavailable, match=r"no node runs there\. Start one with"):
        amounts(data)


def test_an_app_that_has_views_in_sqlite_keeps_them_there(empty: Path, set_up: Path) -> None:
    empty.mkdir()
    write(empty, 3)
    subprocess.run(["cp", "-a", set_up / "postgresql", empty], check=True)
    data = empty
    with Node(data, WITH_POSTGRES) as node:
        assert amounts(data) == [3]
        write(data, 4, batch=1)
        assert amounts(data) == [4]
        assert rows(data, "SELECT count(*) FROM pg_namespace WHERE nspname = 'shop'") == [(0,)]
        assert isinstance(open_store(data, "other"), PostgresStore)
        assert node.views_address


def test_sqlite_is_refused_where_views_are_in_postgresql(data: Path) -> None:
    with Node(data, WITH_POSTGRES):
        pass
    with pytest.raises(UnavailableError, match=r"are in PostgreSQL\. Start the node without --views sqlite"):
        Node(data, NodeSettings(wire=WireSettings(port=0), views=SQLITE)).start()
    with Node(data, SETTINGS) as node:
        assert node.views_address


def test_a_lost_password_is_a_sentence_that_names_the_way_out(data: Path) -> None:
    with Node(data, WITH_POSTGRES):
        pass
    (data / "postgresql" / "server.json").unlink()
    with pytest.raises(UnavailableError, match=r"server.json with the password of .* is missing. Restore it"):
        Node(data, WITH_POSTGRES).start()


def test_a_set_up_that_was_cut_off_begins_again(empty: Path) -> None:
    data = empty
    half = data / "postgresql" / "cluster.new"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("1\n")
    with Node(data, WITH_POSTGRES):
        write(data, 5)
        assert rows(data) == [("c0", 5)]
