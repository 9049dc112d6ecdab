"""Views of two jobs, of one app or of two, read at one position while money is moved: nothing is ever missing."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import InvalidQuery
from headwater.flow.declare.stream import Table
from headwater.flow.local.columns import local_columns
from headwater.flow.local.session import LocalSession
from headwater.flow.run.running_app import NO_RETRIES, RunningApp, RunSettings
from headwater.flow.source.batch_plan.planner import BatchPlanner
from headwater.flow.source.options import parse_options
from headwater.node import Node
from headwater.query.query import Asked, Engine
from headwater.record import Record, TopicPartition
from headwater.serve.barriers import Barriers
from headwater.serve.stores import Stores
from headwater.settings import NodeSettings
from headwater.testing import running_node
from headwater.views.barrier import Barrier, write_barrier
from tests.waiting import LONG, wait_until

ACCOUNTS, PARTITIONS = 7, 2
READS, READS_LONG = 40, 1000
BALANCE = """
SELECT (SELECT sum(amount) FROM paid) AS paid, (SELECT sum(amount) FROM received) AS received,
       (SELECT sum(n) FROM paid) AS moves
"""


def side(name: str, view: str, key: str) -> hw.App:
    """An app of its own, and so a job of its own, for each side of the transfers."""
    app = hw.App(name, shards=1)
    transfers = app.stream("transfers", "debit long, credit long, amount decimal(12,2)")

    @app.view(key=key, name=view)
    def total() -> Table:
        return transfers.by(key).agg("sum(amount) as amount", "count(*) as n")

    return app


def two_apps() -> list[hw.App]:
    return [side("debits", "paid", "debit"), side("credits", "received", "credit")]


def one_app() -> list[hw.App]:
    """Two jobs of one app: one of them reads a second topic."""
    app = hw.App("bank", shards=1)
    columns = "debit long, credit long, amount decimal(12,2)"
    transfers, deposits = app.stream("transfers", columns), app.stream("deposits", columns)

    @app.view(key="debit")
    def paid() -> Table:
        return transfers.by("debit").agg("sum(amount) as amount", "count(*) as n")

    @app.view(key="credit")
    def received() -> Table:
        return transfers.union(deposits).by("credit").agg("sum(amount) as amount", "count(*) as n")

    return [app]


def transfer(number: int) -> Record:
    moved = {"debit": number % ACCOUNTS, "credit": number % 5, "amount": f"{number % 13}.25"}
    return Record(json.dumps(moved).encode())


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with running_node(tmp_path / "data", NodeSettings()) as node:
        node.log.create_topic("transfers", partitions=PARTITIONS)
        node.log.create_topic("deposits", partitions=1)
        yield node


class Load:
    """Somebody who moves money all the time."""

    def __init__(self, node: Node) -> None:
        self._node, self._stopping = node, threading.Event()
        self._thread = threading.Thread(target=self._work)
        self.moved = 0

    def _work(self) -> None:
        while not self._stopping.wait(0.002):
            number, self.moved = self.moved, self.moved + 1
            self._node.log.append("transfers", transfer(number), partition=number % PARTITIONS)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()


@contextmanager
def moving(node: Node, apps: list[hw.App]) -> Iterator[Engine]:
    """Jobs that run while money is moved, and who can be asked about their views."""
    settings = RunSettings(node.data, node.kafka_address, retries=NO_RETRIES)
    stores = Stores(node.data)
    engine = Engine(stores, place_barrier=Barriers(node.log, node.data).place)
    with ExitStack() as stack:
        stack.callback(stores.close)
        stack.callback(engine.close)
        stack.enter_context(local_columns())
        for app in apps:
            running = RunningApp(app, LocalSession.as_spark(), settings)
            running.start()
            stack.callback(running.stop)
        stack.enter_context(Load(node))
        wait_for_both(engine)
        yield engine


def reads_at_one_position(node: Node, apps: list[hw.App], reads: int) -> list[tuple[Decimal, Decimal, int]]:
    found: list[tuple[Decimal, Decimal, int]] = []
    with moving(node, apps) as engine:
        for _ in range(reads):
            answer = engine.ask(Asked(sql=BALANCE, one_position=True, seconds=LONG))
            assert answer is not None
            assert answer.position is not None
            (row,) = answer.table.to_pylist()
            assert row["moves"] == sum(answer.position["transfers"].values()), "the position is what the rows are of"
            found.append((row["paid"], row["received"], row["moves"]))
    return found


def wait_for_both(engine: Engine) -> None:
    for view in ("paid", "received"):
        while True:
            try:
                engine.ask(Asked(sql=f"SELECT 1 FROM {view}", at_least={"transfers": {0: 1}}, seconds=LONG))
                break
            except InvalidQuery:
                threading.Event().wait(0.05)  # the view has not been made yet


APPS = pytest.mark.parametrize("apps", [one_app, two_apps])


@APPS
def test_money_that_moves_is_never_missing_from_a_read_at_one_position(
    node: Node, apps: Callable[[], list[hw.App]]
) -> None:
    found = reads_at_one_position(node, apps(), READS)
    assert [one for one in found if one[0] != one[1]] == []
    assert len({moves for *_, moves in found}) > READS // 4, "the reads were made while money moved"


@pytest.mark.torture
@pytest.mark.timeout(900)
@APPS
def test_a_thousand_reads_at_one_position_are_never_torn(node: Node, apps: Callable[[], list[hw.App]]) -> None:
    found = reads_at_one_position(node, apps(), READS_LONG)
    assert len(found) == READS_LONG
    assert [one for one in found if one[0] != one[1]] == []


def test_reads_of_each_view_at_its_own_position_are_torn(node: Node) -> None:
    """Otherwise the tests above would find nothing whatever was wrong."""
    with moving(node, one_app()) as engine:

        def torn() -> bool:
            answer = engine.ask(Asked(sql=BALANCE, seconds=LONG))
            assert answer is not None
            (row,) = answer.table.to_pylist()
            return bool(row["paid"] != row["received"])

        wait_until(torn, "a read in which money is missing", seconds=120)


# What a job does about a barrier


PLACES = [TopicPartition("transfers", number) for number in range(PARTITIONS)]


@pytest.fixture
def planner(node: Node) -> Iterator[BatchPlanner]:
    for number in range(10):
        node.log.append("transfers", transfer(number), partition=number % PARTITIONS)
    (node.data / "flows").mkdir()
    planner = BatchPlanner(parse_options({"data": str(node.data), "topic": "transfers"}))
    yield planner
    planner.close()


def ends(planner: BatchPlanner, *start: int) -> list[int]:
    made = planner.next(dict(zip(PLACES, start, strict=True)), rows_max=None, bytes_max=None)
    return [made.ends[place] for place in PLACES]


def place(node: Node, *ends: int, lasting_ms: int = 60_000) -> None:
    until_ms = node.log.clock.now_ms() + lasting_ms
    write_barrier(node.data, Barrier(until_ms, {"transfers": dict(enumerate(ends))}))


def test_a_batch_ends_at_a_barrier_and_the_next_one_goes_on(node: Node, planner: BatchPlanner) -> None:
    assert ends(planner, 0, 0) == [5, 5]
    place(node, 3, 4)
    assert ends(planner, 0, 0) == [3, 4]
    assert ends(planner, 3, 2) == [3, 4], "one partition is there, the other is not yet"
    assert ends(planner, 3, 4) == [5, 5]


def test_a_barrier_that_was_passed_or_is_old_or_damaged_stops_nobody(node: Node, planner: BatchPlanner) -> None:
    place(node, 3, 4)
    assert ends(planner, 4, 0) == [5, 5]
    place(node, 3, 4, lasting_ms=-1)
    assert ends(planner, 0, 0) == [5, 5]
    (node.data / "flows" / "barrier.json").write_bytes(b'{"until_ms": []}')
    assert ends(planner, 0, 0) == [5, 5]
