import signal
import subprocess
import sys

import pytest

from headwater import __version__
from headwater.cli.main import VERBS, build_parser
from scripts.reference import actions_of
from tests.cli.conftest import Terminal


def test_help_names_every_verb(terminal: Terminal) -> None:
    said = terminal.type("--help")
    assert said.code == 0
    assert [verb.name for verb in VERBS if f"    {verb.name} " not in said.output] == []


def test_version_is_that_of_the_package(terminal: Terminal) -> None:
    assert terminal.type("--version").output == f"headwater {__version__}\n"


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("strat",),
        ("topic",),
        ("topic", "create"),
        ("topic", "create", "orders", "--partitions", "0"),
        ("topic", "create", "orders", "--config", "retention.ms"),
        ("consume", "orders", "--from", "yesterday"),
        ("produce", "orders", "--acks", "2"),
        ("produce", "orders", "--jsonl", "--key-separator", ":"),
        ("start", "--kafka", "9092"),
        ("group", "reset", "warehouse"),
        ("demo", "--for", "60"),
    ],
)
def test_a_command_typed_wrongly_is_one_line_and_exit_code_2(terminal: Terminal, words: tuple[str, ...]) -> None:
    said = terminal.type(*words)
    assert said.code == 2
    assert said.output == ""
    assert said.errors.count("\n") == 1
    assert "--help" in said.errors


def test_every_option_says_what_it_means() -> None:
    verbs = actions_of(build_parser())
    parsers = [child for verb in verbs.values() for child in (actions_of(verb).values() or [verb])]
    silent = [(parser.prog, action.dest) for parser in parsers for action in parser._actions if not action.help]
    assert silent == []


def test_a_reader_that_goes_away_ends_the_command_quietly(terminal: Terminal) -> None:
    terminal.type("produce", "numbers", stdin="".join(f"{n}\n" for n in range(100_000)))
    command = f"{sys.executable} -m headwater consume numbers | head -n 1"
    done = subprocess.run(
        ["bash", "-c", f"{command}; echo ${{PIPESTATUS[0]}}"],
        cwd=terminal.folder,
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode().split() == ["0", str(128 + signal.SIGPIPE)]
    assert done.stderr == b""
