"""Being asked to end: what a person sees of it, and when it happens."""

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.cli.stop_signals import Stopping, gateway_is_quiet, listening
from headwater.record import Record
from headwater.testing import running_node
from tests.flow.job.shop import orders, text

APP = """\
import headwater as hw
app = hw.App("shop", shards=2)
orders = app.stream("orders", "id string, user_id long, at timestamp", time="at")
app.view(key="user_id", name="last")(lambda: orders.latest("user_id"))
"""


def test_the_first_signal_is_noted_and_the_second_ends_everything() -> None:
    before = signal.getsignal(signal.SIGINT)
    with listening() as stopping:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopping.asked_by == signal.SIGTERM
        with pytest.raises(SystemExit, match=str(128 + signal.SIGTERM)):
            stopping.check()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_no_signal_has_arrived_at_first() -> None:
    Stopping().check()


def test_only_what_the_gateway_logs_is_kept_away(caplog: pytest.LogCaptureFixture) -> None:
    gateway = logging.LogRecord("root", logging.ERROR, "/site-packages/py4j/java_gateway.py", 1, "noise", None, None)
    with gateway_is_quiet():
        logging.getLogger("py4j.clientserver").error("noise")
        logging.getLogger().handle(gateway)
        logging.getLogger("headwater.flow").warning("news")
    assert [record.message for record in caplog.records] == ["news"]


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A node with more rows than the first batches take."""
    (tmp_path / "shop.py").write_text(APP)
    with running_node(tmp_path / "data") as node:
        node.log.create_topic("orders")
        node.log.append("orders", [Record(text(row)) for row in orders(20_000)], partition=0)
        yield node.data


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_asked_to_end_finishes_its_batch_and_says_no_more_than_usual(data: Path, number: int) -> None:
    command = [sys.executable, "-m", "headwater", "run", "shop.py", "--data", str(data), "--json"]
    process = subprocess.Popen(
        [*command, "--rows-per-batch", "300"], cwd=data.parent, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    lines = [process.stdout.readline(), process.stdout.readline()]
    # As a terminal does it: to all processes of the group.
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    rest, errors = process.communicate()
    batches = [json.loads(line)["batch"] for line in [*lines, *rest.splitlines()]]
    assert (process.returncode, errors) == (128 + number, "")
    assert batches == list(range(len(batches)))
    job = data / "flows" / "shop" / "orders"
    finished = sorted(int(file.stem) for file in (job / "batches").glob("*.json"))
    assert finished == batches, "no batch was torn in two"
    assert len(batches) < 20_000 / 300, "it did not go on to the end"
