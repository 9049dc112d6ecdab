from pathlib import Path

import pytest

from headwater import Log, Node, Record
from tests.cli.conftest import Terminal


@pytest.fixture
def segment(terminal: Terminal) -> Path:
    """The only segment file of a stopped log with three batches."""
    with Log.open(terminal.data) as log:
        log.create_topic("orders")
        for n in range(3):
            log.append("orders", Record(b"order %d" % n))
    return terminal.data / "orders-0" / "00000000000000000000.log"


def test_a_sound_log_is_said_to_be_sound(terminal: Terminal, segment: Path) -> None:
    said = terminal.type("log", "check")
    assert said.code == 0
    assert said.output.endswith("1 partition checked: everything is sound\n")


def test_json_has_the_counts(terminal: Terminal, segment: Path) -> None:
    said = terminal.type("log", "check", "--json").json
    [partition] = said["partitions"]
    assert said["sound"]
    assert (partition["records"], partition["first"], partition["end"]) == (3, 0, 3)


def test_damage_is_reported_with_its_offsets(terminal: Terminal, segment: Path) -> None:
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)
    said = terminal.type("log", "check")
    assert said.code == 1
    assert "orders/0: damaged now: offsets 1 to 1" in said.output


def test_checking_changes_nothing(terminal: Terminal, segment: Path) -> None:
    segment.write_bytes(segment.read_bytes()[:-1] + b"?")
    before = segment.read_bytes()
    terminal.type("log", "check")
    assert segment.read_bytes() == before
    assert not (segment.parent / "quarantine.json").exists()


def test_a_log_in_use_is_not_checked(terminal: Terminal, node: Node) -> None:
    said = terminal.type("log", "check")
    assert said.code == 1
    assert "is in use by" in said.errors


@pytest.mark.parametrize("folder", ["nowhere", "."])
def test_a_folder_without_a_log_is_left_as_it_is(terminal: Terminal, folder: str) -> None:
    said = terminal.type("log", "check", "--data", folder)
    assert said.code == 1
    assert f"{folder} is no data directory" in said.errors
    assert list(terminal.folder.iterdir()) == []
