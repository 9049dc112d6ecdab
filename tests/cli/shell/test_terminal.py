"""The shell driven through a pseudo-terminal, as a person sees it."""

import os
import re
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from headwater.cli.shell.terminal import ViewCompleter
from tests.serve.shop import Shop, fill, open_shop
from tests.waiting import LONG

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1b[=>]|\r")
Begin = Callable[..., "Typist"]


class Typist:
    """Somebody at a terminal. What is shown is compared without its colours and movements."""

    def __init__(self, folder: Path, rows: int, environment: dict[str, str]) -> None:
        given = {**os.environ, "PROMPT_TOOLKIT_NO_CPR": "1", "TERM": "xterm", **environment}
        given["HEADWATER_SQL_HISTORY"] = str(folder / "history")
        self.child: Any = pexpect.spawn(
            sys.executable, ["-m", "headwater", "sql", "--timeout", "60s"], cwd=str(folder), env=given,
            encoding="utf-8", timeout=LONG, dimensions=(rows, 100),
        )  # fmt: skip
        self.child.delaybeforesend = None
        self.wait_for("Ctrl-D ends")
        self.wait_for("sql>")

    def wait_for(self, text: str) -> str:
        """What was shown until the text was there, and with it."""
        self.child.expect_exact(text)
        return ANSI.sub("", self.child.before + self.child.after)

    def ask(self, line: str, until: str = "(1 row") -> str:
        """Type a line; what is shown until the shell has answered and waits for the next."""
        self.child.send(line + "\r")
        return self.wait_for(until) + self.wait_for("sql>")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with open_shop(tmp_path_factory.mktemp("shop") / "data") as opened:
        fill(opened)
        yield opened


@pytest.fixture
def begin(tmp_path: Path, shop: Shop) -> Iterator[Begin]:
    open: list[Typist] = []

    def started(rows: int = 40, **environment: str) -> Typist:
        open.append(Typist(tmp_path, rows, {"HEADWATER_DATA": str(shop.node.data), **environment}))
        return open[-1]

    yield started
    for one in open:
        one.child.close(force=True)


def test_a_statement_over_several_lines_is_answered(begin: Begin) -> None:
    typist = begin()
    typist.child.send("SELECT country, amount\r")
    typist.wait_for("->")
    shown = typist.ask("FROM revenue WHERE orders > 5;")
    assert " IT      | 100.10" in shown
    assert "(1 row · position orders/0@0)" in shown


def test_a_mistake_is_a_sentence_and_the_shell_goes_on(begin: Begin) -> None:
    typist = begin()
    shown = typist.ask("SELECT amont FROM revenue;", "amount, orders.")
    assert 'error: line 1, column 8: there is no column "amont". Did you mean "amount"?' in shown
    assert "Traceback" not in shown
    assert " one" in typist.ask("SELECT 1 AS one;")


def test_tab_completes_views_and_columns(begin: Begin) -> None:
    typist = begin()
    typist.child.send("SELECT amount, country FROM reve\t")
    typist.wait_for("nue")  # only this is sure to be drawn at once
    typist.child.send(" WHERE revenue.ord\t")
    typist.wait_for("ers")
    assert " 100.10 | IT" in typist.ask(" > 5;")


def test_history_is_kept_for_the_next_time_and_for_its_owner_alone(begin: Begin, tmp_path: Path) -> None:
    first = begin()
    first.ask("SELECT 41 + 1 AS answer;")
    first.child.sendeof()
    first.child.expect(pexpect.EOF)
    assert stat.S_IMODE((tmp_path / "history").stat().st_mode) == 0o600
    second = begin()
    second.child.send("\x1b[A")
    second.wait_for("41 + 1 AS answer;")
    assert "     42" in second.ask("")


def test_commands_of_the_shell_change_how_answers_look(begin: Begin) -> None:
    typist = begin()
    assert "shop.revenue | country" in typist.ask("\\d", "orders")
    assert "decimal(12,2)" in typist.ask("\\d revenue", "| false")
    typist.child.send("\\x\r")
    typist.wait_for("sql>")
    assert "-[ row 1 ]-" in typist.ask("SELECT orders FROM revenue WHERE orders = 9;")
    assert "SUBSCRIBE TO (SELECT" in typist.ask("\\?", "Ctrl-D)")


def test_a_followed_query_shows_changes_until_ctrl_c(begin: Begin, shop: Shop) -> None:
    typist = begin()
    typist.child.send("SUBSCRIBE TO (SELECT country, orders FROM revenue WHERE orders > 5);\r")
    typist.wait_for("+ IT | 9")
    shop.write([{"country": "IT", "amount": "1.00", "orders": 10}, {"country": "PT", "amount": "1.00", "orders": 8}])
    shown = typist.wait_for("+ PT | 8")
    assert "- IT | 9" in shown
    assert "+ IT | 10" in shown
    typist.child.sendintr()
    typist.wait_for("stopped")
    assert " one" in typist.ask("SELECT 1 AS one;")


def test_an_answer_that_does_not_fit_goes_through_the_pager(begin: Begin, tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\nsed 's/^/paged /'\n")
    pager.chmod(0o755)
    typist = begin(rows=10, PAGER=str(pager))
    assert "paged" not in typist.ask("SELECT 1 AS one;")
    assert "paged  19" in typist.ask("SELECT explode(sequence(1, 30)) AS n;", "(30 rows")


def test_ctrl_d_ends_the_shell_and_ctrl_c_forgets_a_line(begin: Begin) -> None:
    typist = begin()
    typist.child.send("SELECT nothing at all")
    typist.wait_for("at all")
    typist.child.sendintr()
    assert " one" in typist.ask("SELECT 1 AS one;")
    typist.child.sendeof()
    typist.child.expect(pexpect.EOF)
    typist.child.wait()
    assert typist.child.exitstatus == 0


def test_a_command_ends_the_shell(begin: Begin) -> None:
    typist = begin()
    typist.child.send("\\q\r")
    typist.child.expect(pexpect.EOF)
    typist.child.wait()
    assert typist.child.exitstatus == 0


def test_a_node_that_ends_is_a_sentence_and_the_shell_goes_on(begin: Begin, shop: Shop) -> None:
    typist = begin()
    shop.node.stop()
    typist.ask("SELECT 1 AS one;", "error: the node does not answer")
    typist.child.kill(signal.SIGTERM)
    typist.child.expect(pexpect.EOF)


@pytest.mark.parametrize("typed, completed", [("pay", ["payments"]), ("my", []), ("`my", ["`my-topic`"])])
def test_topics_are_completed_and_quoted_where_they_must_be(typed: str, completed: list[str]) -> None:
    completer = ViewCompleter(list, lambda: [{"name": "payments"}, {"name": "my-topic"}, {"name": "payments"}])
    found = completer.get_completions(Document(f"SELECT * FROM {typed}"), CompleteEvent())
    assert [one.text for one in found] == completed


@pytest.mark.torture
def test_a_topic_is_asked_through_spark(begin: Begin) -> None:
    typist = begin()
    shown = typist.ask("SELECT partition, count(*) AS n FROM orders GROUP BY partition ORDER BY partition;", "(2 rows")
    assert "reading up to 21 records of orders with Spark" in shown
    assert "position orders/0@" in shown
