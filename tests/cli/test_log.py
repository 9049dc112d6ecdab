from pathlib import Path

import pytest

from headwater import Log, Node, Record
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.run.health import HealthFile
from headwater.flow.run.supervision import Health
from tests.cli.conftest import Terminal
from tests.flow.job.kept_jobs import kept_job


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


def test_files_of_other_parts_are_checked_and_named(terminal: Terminal, segment: Path) -> None:
    terminal.type("token", "add", "grafana", "--scope", "metrics")
    job = kept_job(terminal.data)
    JobFolder(job.path).write("plan.json", {"outputs": {}, "operators": {}})
    JobFolder(job.path).write("sinks/shop.accounts.json", {"batch": 0})
    HealthFile(job.path).write(Health())
    assert terminal.type("log", "check").code == 0
    (terminal.data / "tokens.json").write_text("{")
    (terminal.data / "flows" / "shop" / "orders" / "identity.json").unlink()
    said = terminal.type("log", "check")
    assert said.code == 1
    assert "tokens.json is damaged (it is not what was written); its copy is used" in said.output
    assert "flows/shop/orders/identity.json is missing; its copy is used" in said.output
    assert said.output.endswith("1 partition checked: 2 problems beside the log\n")
    assert len(terminal.type("log", "check", "--json").json["problems"]) == 2
