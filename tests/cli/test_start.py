import json

import pytest

from headwater import Node
from headwater.cli.connection import failed_start
from headwater.cli.main import build_parser
from headwater.cli.start import settings_from
from headwater.settings import START_FAILED_FILE
from tests.cli.conftest import Terminal


def test_a_node_listens_on_loopback_by_default() -> None:
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
    process.communicate()
    assert said["event"] == "ready"
    assert said["kafka"].startswith("127.0.0.1:")
    assert said["data"] == str(terminal.data)
    assert process.returncode == 0


def test_a_ready_node_prints_one_line_and_no_more(terminal: Terminal) -> None:
    process = terminal.start("start", "--kafka", "127.0.0.1:0")
    assert process.stdout is not None
    assert b"headwater is ready" in process.stdout.readline()
    process.terminate()
    rest, _ = process.communicate()
    assert (rest, process.returncode) == (b"", 0)


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
    assert f"the Kafka port cannot be opened at {node.kafka_address}: it is in use." in said.errors
    assert "choose another with --kafka HOST:PORT" in said.errors
    assert "Traceback" not in said.errors
    assert "Errno" not in said.errors


def test_an_http_port_in_use_is_a_sentence(terminal: Terminal, node: Node) -> None:
    said = terminal.type("start", "--data", "other", "--kafka", "127.0.0.1:0", "--http", node.kafka_address)
    assert said.code == 1
    assert f"the HTTP port cannot be opened at {node.kafka_address}: it is in use." in said.errors
    assert "choose another with --http HOST:PORT" in said.errors
    assert "Traceback" not in said.errors


def test_a_start_that_failed_is_noted_until_one_succeeds(terminal: Terminal, node: Node) -> None:
    data = terminal.folder / "other"
    terminal.type("start", "--data", "other", "--kafka", node.kafka_address)
    assert f"the Kafka port cannot be opened at {node.kafka_address}: it is in use." in failed_start(data)
    # A node of a single command does not stand for the one that was wanted.
    assert terminal.type("topic", "list", "--data", "other").code == 0
    assert failed_start(data)
    process = terminal.start("start", "--data", "other", "--kafka", "127.0.0.1:0")
    assert process.stdout is not None
    assert b"headwater is ready" in process.stdout.readline()
    process.terminate()
    process.communicate()
    assert not (data / START_FAILED_FILE).exists()


def test_a_directory_that_has_a_node_gets_no_note_of_a_second_one(terminal: Terminal, node: Node) -> None:
    assert terminal.type("start", "--kafka", "127.0.0.1:0").code == 1
    assert failed_start(terminal.data) == ""


def test_a_node_that_fails_while_it_serves_is_noted_too(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(node: Node, ready: object) -> None:
        node.data.mkdir()
        raise OSError(5, "Input/output error", "orders-0")

    monkeypatch.setattr(Node, "run_forever", fails)
    assert terminal.type("start", "--kafka", "127.0.0.1:0").code == 1
    assert failed_start(terminal.data) == "Input/output error: orders-0."


def test_a_note_that_cannot_be_read_is_a_note_all_the_same(terminal: Terminal) -> None:
    terminal.data.mkdir()
    (terminal.data / START_FAILED_FILE).write_text("{")
    assert START_FAILED_FILE in failed_start(terminal.data)
