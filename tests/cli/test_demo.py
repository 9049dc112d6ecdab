"""What `headwater demo` says before anything is started; tests/demo runs it."""

from pathlib import Path

import pytest

from headwater.cli.demo import announce
from headwater.cli.main import build_parser
from headwater.cli.run import Board
from headwater.demo import shop_file
from headwater.flow.commit.accounts import Account
from headwater.flow.commit.batch_processor import Progress
from headwater.flow.commit.job_folder import BatchRecord
from tests.cli.conftest import Terminal


def test_without_a_postgresql_it_says_how_to_get_one(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.demo.database.newest_programs", lambda: None)
    said = terminal.type("demo", "--no-browser")
    assert said.code == 1
    assert "pip install 'headwater[demo]'" in said.errors


def test_a_folder_with_a_shop_from_before_is_refused(terminal: Terminal) -> None:
    (terminal.folder / "kept" / "flows" / "shop").mkdir(parents=True)
    said = terminal.type("demo", "--data", "kept", "--no-browser")
    assert said.code == 1
    assert "kept has a shop from before" in said.errors


@pytest.mark.parametrize(
    "words, screen, opened",
    [([], ":0", ["http://127.0.0.1:8080"]), ([], "", []), (["--no-browser"], ":0", [])],
    ids=["on a screen", "without a screen", "with --no-browser"],
)
def test_the_dashboard_is_opened(
    words: list[str], screen: str, opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "node.json").write_text('{"http": "http://127.0.0.1:8080"}')
    found: list[str] = []
    monkeypatch.setattr("webbrowser.open", found.append)
    monkeypatch.setenv("DISPLAY", screen)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    arguments = build_parser("demo").parse_args(["demo", "--data", str(tmp_path), *words])
    arguments.file = shop_file()
    announce(arguments, "127.0.0.1:9092")
    assert found == opened


def test_a_job_has_caught_up_when_it_has_read_all_partitions_of_its_topics() -> None:
    board, ends = Board(as_json=False), {"orders": {0: 5, 1: 3}, "clicks": {0: 9}}
    assert not board.reached("orders", ends), "there was no batch yet"
    board.tell("orders", progress({"orders": {0: 5, 1: 2}}))
    assert not board.reached("orders", ends)
    board.tell("orders", progress({"orders": {0: 6, 1: 3}}))
    assert board.reached("orders", ends)
    assert board.accounts() == {"revenue": Account(rows_in=4, rows_out=4)}


def progress(end: dict[str, dict[int, int]]) -> Progress:
    accounts = {"revenue": Account(rows_in=2, rows_out=2)}
    return Progress(BatchRecord(0, {}, end, accounts), 0.1, 0)
