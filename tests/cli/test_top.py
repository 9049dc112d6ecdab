import io
from dataclasses import replace

import pytest
from rich.console import Console

from headwater import Node, Record
from headwater.cli.observer import Frame, GroupFigures, TopicFigures
from headwater.cli.output import ago
from headwater.cli.top import screen, size
from headwater.flow.commit.accounts import Account
from headwater.flow.run.figures import HotFigures, JobFigures, OutputFigures
from headwater.flow.run.supervision import Condition, Health, State, Trouble
from tests.cli.conftest import Terminal

BUSY = Account(rows_in=123_456_789, rows_out=120_000_000, filtered=3_400_000, late=1_234, poisoned=55_555)
LAST = Account(rows_in=1_000_000, rows_out=980_000, filtered=20_000)
FRAME = Frame(
    "127.0.0.1:9092",
    1_700_000_000_000,
    (
        TopicFigures("orders", 12, 123_456_789, 98_765_432_100, 54_321.4),
        TopicFigures("shop.accounts", 1, 4, None, None),
    ),
    (GroupFigures("shop.orders", "empty", 0, 1_234_567),),
    (
        JobFigures(
            "shop.orders", True, 12_345, 250_000.4, 1_500_000_000, 1_234_567, 75_000,
            (OutputFigures("revenue_by_currency", BUSY, LAST), OutputFigures("big-orders", BUSY, LAST)),
            1_699_999_200_000_000, 600_000_000, ("orders/3", "orders/7"), condition=Condition(State.RUNNING),
        ),
        JobFigures("shop.clicks+searches", False, None, None, 0, None, None, ()),
    ),
)  # fmt: skip


def lines_of(frame: Frame, *, width: int = 100) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(screen(frame))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_a_busy_node_fits_into_a_hundred_columns() -> None:
    lines = [line.split() for line in lines_of(FRAME)]
    assert lines[2:5] == [
        ["job", "status", "batch", "rows/s", "lag", "last", "batch", "state"],
        ["shop.orders", "running", "12,345", "250,000", "1,234,567", "1m", "15s", "ago", "1.5", "GB"],
        ["shop.clicks+searches", "stopped", "-", "-", "-", "-", "0", "B"],
    ]
    assert lines[6:8] == [
        ["job", "watermark", "behind", "idle"],
        ["shop.orders", "2023-11-14", "22:00:00", "10m", "0s", "orders/3,", "orders/7"],
    ]
    assert lines[10] == [
        "shop.revenue_by_currency", "123,456,789", "120,000,000", "3,400,000", "1,234", "55,555", "1,000,000",
        "980,000",
    ]  # fmt: skip
    assert ["orders", "12", "123,456,789", "98.8", "GB", "54,321"] in lines


def test_a_job_that_fails_is_shown_with_its_reason() -> None:
    trouble = Trouble("StoreUnavailable", "the database does not answer", 1_000, 61_000, 3)
    condition = Condition(State.RETRYING, trouble.reason, Health(State.RETRYING, trouble))
    job = JobFigures("shop.orders", False, 0, None, 0, 0, 0, (), condition=condition)
    lines = [line.split() for line in lines_of(Frame("", 0, (), (), (job,)))]
    assert ["shop.orders", "retrying"] in [line[:2] for line in lines]
    assert ["shop.orders", "1970-01-01", "00:00:01", "3", *trouble.reason.split()] in lines


def test_outputs_whose_keys_end_say_how_many_have() -> None:
    total, last = Account(rows_in=10, rows_out=10, expired=7), Account(rows_in=1, rows_out=1, expired=2)
    job = JobFigures("shop.orders", True, 0, None, 0, 0, 0, (OutputFigures("v", total, last),))
    assert ["shop.v", "7", "2"] in [line.split() for line in lines_of(Frame("", 0, (), (), (job,)))]


def test_rows_that_were_repetitions_are_counted_with_those_that_were_filtered() -> None:
    account = Account(rows_in=10, rows_out=5, filtered=2, duplicates=3)
    job = JobFigures("shop.orders", True, 0, None, 0, 0, 0, (OutputFigures("v", account, account),))
    lines = lines_of(Frame("", 0, (), (), (job,)))
    assert ["shop.v", "10", "5", "5", "0", "0", "10", "5"] in [line.split() for line in lines]


def test_one_frame_is_shown_without_a_terminal(terminal: Terminal, node: Node) -> None:
    node.log.create_topic("orders")
    node.log.append("orders", [Record(b"one")])
    said = terminal.type("top")
    assert said.code == 0
    assert said.output.startswith(f"headwater at {node.kafka_address}, ")
    assert ["orders", "1", "1"] in [line.split()[:3] for line in said.output.splitlines()]


def test_scripts_get_one_frame_as_json(terminal: Terminal, node: Node) -> None:
    node.log.create_topic("orders")
    said = terminal.type("top", "--json").json
    assert [topic["name"] for topic in said["topics"]] == ["orders"]
    assert (said["groups"], said["jobs"]) == ([], [])


def test_an_empty_log_says_what_to_do(terminal: Terminal, node: Node) -> None:
    assert "there are no topics yet" in terminal.type("top", "--once").output


@pytest.mark.parametrize("count, text", [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_960, "1.0 MB")])
def test_sizes_are_written_so_that_they_can_be_read_at_a_glance(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize("ms, text", [(0, "0s"), (59_999, "59s"), (60_000, "1m 0s"), (90_061_000, "1d 1h")])
def test_times_are_written_so_that_they_can_be_read_at_a_glance(ms: int, text: str) -> None:
    assert ago(ms) == text


def test_keys_that_are_split_are_shown_with_the_side_that_has_their_rows() -> None:
    hot = tuple(HotFigures("feed", f"k{number}", "left", 1_000_000 - number) for number in range(7))
    frame = replace(FRAME, jobs=(replace(FRAME.jobs[0], hot=hot),))
    lines = [line.split() for line in lines_of(frame)]
    first = lines.index(["join", "hot", "key", "rows", "of", "its"])
    assert lines[first + 1] == ["shop.feed", "k0", "1,000,000", "left"]
    assert lines[first + 5] == ["shop.feed", "k4", "999,996", "left"]
    assert lines[first + 6] == []
    assert frame.to_json()["jobs"][0]["hot"][0] == {"operator": "feed", "key": "k0", "side": "left", "rows": 1_000_000}
