import json
from pathlib import Path

import pytest

import headwater.events as ev
from headwater.settings import HttpSettings, NodeSettings
from headwater.testing import running_node
from tests.cli.conftest import Terminal
from tests.events import theatre
from tests.events.theatre import Seat

SEAT = f"{theatre.__file__}:Seat"


@pytest.fixture
def seats(terminal: Terminal) -> None:
    with ev.open(terminal.data) as store:
        store.handle(Seat, "12A", "reserve", user="ada", origin=ev.Origin(user="clerk"))
        store.handle(Seat, "12A", "change_hands", user="bob")
        store.handle(Seat, "12B", "reserve", user="eve")


@pytest.mark.usefixtures("seats")
def test_the_state_is_shown_now_and_as_it_was(terminal: Terminal) -> None:
    assert terminal.type("events", "show", SEAT, "12A", "--json").json["state"]["holder"] == "bob"
    assert terminal.type("events", "show", SEAT, "12A", "--version", "1", "--json").json["state"]["holder"] == "ada"
    assert terminal.type("events", "show", SEAT, "12A", "--time", "0ms", "--json").json["version"] == 0
    assert "holder     bob" in terminal.type("events", "show", SEAT, "12A").output


@pytest.mark.usefixtures("seats")
def test_the_history_has_each_event_and_the_state_after_it(terminal: Terminal) -> None:
    said = terminal.type("events", "history", SEAT, "12A", "--json")
    steps = [json.loads(line) for line in said.output.splitlines()]
    assert [(one["type"], one["user"], one["state"]["holder"]) for one in steps] == [
        ("Reserved", "clerk", "ada"), ("Released", "", None), ("Reserved", "", "bob"),
    ]  # fmt: skip
    assert "Reserved" in terminal.type("events", "history", SEAT, "12A").output


@pytest.mark.usefixtures("seats")
def test_what_changed_between_two_versions(terminal: Terminal) -> None:
    said = terminal.type("events", "diff", SEAT, "12A", "1", "--json").json
    assert (said["old"], said["new"], said["changed"]) == (1, 3, {"holder": ["ada", "bob"], "earlier": [[], ["ada"]]})
    assert "ada" in terminal.type("events", "diff", SEAT, "12A", "1", "2").output


@pytest.mark.usefixtures("seats")
def test_a_replay_says_how_many_differ(terminal: Terminal) -> None:
    assert terminal.type("events", "replay", SEAT, "--json").json == {"replayed": 2, "differing": []}
    assert terminal.type("events", "replay", SEAT, "12A").output == "1 replayed, 0 differ from their snapshot\n"


@pytest.mark.usefixtures("seats")
def test_a_node_on_the_directory_is_asked(terminal: Terminal) -> None:
    with running_node(terminal.data, NodeSettings(http=HttpSettings())):
        assert terminal.type("events", "show", SEAT, "12B", "--json").json["state"]["holder"] == "eve"


@pytest.mark.parametrize(
    ("aggregate", "said"),
    [("nothing.py:Seat", "no file of Python"), (f"{theatre.__file__}:Sofa", "no aggregate Sofa")],
)
def test_what_is_no_aggregate_is_said(terminal: Terminal, aggregate: str, said: str) -> None:
    found = terminal.type("events", "show", aggregate, "1")
    assert found.code == 1
    assert said in found.errors


def test_a_directory_that_is_not_there_is_not_made(terminal: Terminal, tmp_path: Path) -> None:
    found = terminal.type("events", "show", SEAT, "1", "--data", str(tmp_path / "nothing"))
    assert found.code == 1
    assert not (tmp_path / "nothing").exists()
