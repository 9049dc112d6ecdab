import json

import pytest

from headwater import Node
from headwater.cli.main import build_parser
from headwater.cli.start import settings_from
from tests.cli.conftest import Terminal


def test_a_node_listens_on_loopback_unless_told_otherwise() -> None:
    settings = settings_from(build_parser("start").parse_args(["start"]))
    assert (settings.wire.host, settings.wire.port) == ("127.0.0.1", 9092)
    assert not settings.wire.insecure_public_bind


def test_what_is_typed_reaches_the_settings() -> None:
    words = ["start", "--kafka", "[::]:7", "--insecure-public-bind", "--archive", "memory://cold"]
    settings = settings_from(build_parser("start").parse_args(words))
    assert (settings.wire.host, settings.wire.port) == ("::", 7)
    assert settings.wire.insecure_public_bind
    assert settings.log.archive_url == "memory://cold"


def test_a_ready_node_says_so_in_one_line_of_json(terminal: Terminal) -> None:
    process = terminal.start("start", "--kafka", "127.0.0.1:0", "--json")
    assert process.stdout is not None
    said = json.loads(process.stdout.readline())
    process.terminate()
    process.communicate(timeout=30)
    assert said["event"] == "ready"
    assert said["kafka"].startswith("127.0.0.1:")
    assert said["data"] == str(terminal.data)
    assert process.returncode == 0


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_a_public_address_is_refused_with_the_way_out(terminal: Terminal, host: str) -> None:
    said = terminal.type("start", "--kafka", f"{host}:0")
    assert said.code == 1
    assert "--insecure-public-bind" in said.errors
    assert "Traceback" not in said.errors


def test_a_directory_in_use_is_refused_with_its_owner(terminal: Terminal, node: Node) -> None:
    said = terminal.type("start", "--kafka", "127.0.0.1:0")
    assert said.code == 1
    assert "is in use by process" in said.errors
    assert "Traceback" not in said.errors


def test_a_port_in_use_is_a_sentence(terminal: Terminal, node: Node) -> None:
    said = terminal.type("start", "--data", "other", "--kafka", node.kafka_address)
    assert said.code == 1
    assert "address already in use" in said.errors.lower()
    assert "Traceback" not in said.errors
