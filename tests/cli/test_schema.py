"""Schemas from the command line: with a node that runs, with none, and with a registry elsewhere."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater import Node, NodeSettings, WireSettings
from headwater.settings import HttpSettings
from tests.cli.conftest import Terminal

FIRST = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}
SECOND = {**FIRST, "fields": [*FIRST["fields"], {"name": "amount", "type": "long", "default": 0}]}
BREAKING = {**FIRST, "fields": [{"name": "number", "type": "long"}]}
PROTO = 'syntax = "proto3";\nmessage Order {\n  string id = 1;\n}\n'


@pytest.fixture
def node(terminal: Terminal) -> Iterator[Node]:
    settings = NodeSettings(wire=WireSettings(port=0), http=HttpSettings(port=0))
    with Node(terminal.data, settings) as node:
        yield node


def write(terminal: Terminal, name: str, schema: object) -> Path:
    file = terminal.folder / name
    file.write_text(schema if isinstance(schema, str) else json.dumps(schema))
    return file


def register(terminal: Terminal, subject: str, schema: object, name: str = "order.avsc", *more: str) -> str:
    said = terminal.type("schema", "register", subject, str(write(terminal, name, schema)), *more)
    assert said.code == 0, said.errors
    return said.output


def test_a_schema_is_registered_listed_and_shown(terminal: Terminal, node: Node) -> None:
    assert register(terminal, "orders-value", FIRST) == 'version 1 of subject "orders-value" has id 1\n'
    assert register(terminal, "orders-value", SECOND) == 'version 2 of subject "orders-value" has id 2\n'
    assert register(terminal, "orders-value", FIRST) == 'version 1 of subject "orders-value" has id 1\n'
    assert terminal.type("schema", "list").output.split() == [
        "subject", "version", "id", "kind", "orders-value", "2", "2", "AVRO"]  # fmt: skip
    assert json.loads(terminal.type("schema", "show", "orders-value").output) == SECOND
    assert json.loads(terminal.type("schema", "show", "orders-value", "--version", "1").output) == FIRST


def test_scripts_get_json(terminal: Terminal, node: Node) -> None:
    file = write(terminal, "order.avsc", FIRST)
    said = terminal.type("schema", "register", "orders-value", str(file), "--json")
    assert said.json == {"subject": "orders-value", "version": 1, "id": 1}
    (listed,) = terminal.type("schema", "list", "--json").json
    assert json.loads(listed.pop("schema")) == FIRST
    assert listed == {"subject": "orders-value", "version": 1, "id": 1}
    assert terminal.type("schema", "show", "orders-value", "--json").json["version"] == 1


def test_the_schema_type_follows_from_the_file_name_or_is_given(terminal: Terminal, node: Node) -> None:
    register(terminal, "p", PROTO, "order.proto")
    register(terminal, "j", {"type": "object"}, "order.json")
    register(terminal, "k", {"type": "object"}, "order.txt", "--kind", "json")
    kinds = {one["subject"]: one.get("schemaType", "AVRO") for one in terminal.type("schema", "list", "--json").json}
    assert kinds == {"p": "PROTOBUF", "j": "JSON", "k": "JSON"}
    assert terminal.type("schema", "show", "p").output == PROTO


def test_a_schema_can_come_through_a_pipe(terminal: Terminal, node: Node) -> None:
    assert terminal.type("schema", "register", "orders-value", "-", stdin=json.dumps(FIRST)).code == 0


def test_a_schema_can_be_built_on_another(terminal: Terminal, node: Node) -> None:
    register(terminal, "money", {"type": "fixed", "name": "shop.Money", "size": 8})
    order = {"type": "record", "name": "O", "fields": [{"name": "price", "type": "shop.Money"}]}
    register(terminal, "orders-value", order, "order.avsc", "--reference", "shop.Money=money:1")
    said = terminal.type("schema", "delete", "money")
    assert (said.code, "is referenced by schema 2" in said.errors) == (1, True)


def test_check_says_whether_a_schema_may_follow_and_why_not(terminal: Terminal, node: Node) -> None:
    register(terminal, "orders-value", FIRST)
    good = terminal.type("schema", "check", "orders-value", str(write(terminal, "b.avsc", SECOND)))
    assert (good.code, good.output) == (0, 'it may be the next version of subject "orders-value"\n')
    bad = terminal.type("schema", "check", "orders-value", str(write(terminal, "c.avsc", BREAKING)))
    assert bad.code == 1
    assert bad.output.splitlines() == [
        'it may not follow what subject "orders-value" has:',
        "  (backward) number: the field is not written, and the reader has no default for it",
    ]
    assert terminal.type("schema", "list", "--json").json[0]["version"] == 1


def test_a_schema_that_may_not_follow_is_not_registered(terminal: Terminal, node: Node) -> None:
    register(terminal, "orders-value", FIRST)
    said = terminal.type("schema", "register", "orders-value", str(write(terminal, "c.avsc", BREAKING)))
    assert said.code == 1
    assert 'is not BACKWARD compatible with version 1 of subject "orders-value"' in said.errors


def test_a_level_can_be_shown_and_set(terminal: Terminal, node: Node) -> None:
    assert terminal.type("schema", "level").output == "subjects without a level of their own: BACKWARD\n"
    assert terminal.type("schema", "level", "orders-value", "--set", "none").output == "orders-value: NONE\n"
    assert terminal.type("schema", "level", "other").output == "other: BACKWARD\n"
    said = terminal.type("schema", "level", "orders-value", "--set", "SIDEWAYS")
    assert (said.code, "'SIDEWAYS' is not a compatibility level" in said.errors) == (1, True)
    register(terminal, "orders-value", FIRST)
    register(terminal, "orders-value", BREAKING)


def test_what_is_deleted_is_hidden_and_then_forgotten(terminal: Terminal, node: Node) -> None:
    register(terminal, "orders-value", FIRST)
    register(terminal, "orders-value", SECOND)
    refused = terminal.type("schema", "delete", "orders-value", "--permanent")
    assert (refused.code, "it has not been deleted" in refused.errors) == (1, True)
    said = terminal.type("schema", "delete", "orders-value", "--version", "2")
    assert said.output == 'deleted version 2 of subject "orders-value"\n'
    assert terminal.type("schema", "delete", "orders-value").output == 'deleted version 1 of subject "orders-value"\n'
    assert terminal.type("schema", "list").output == "there are no schemas\n"
    forgotten = terminal.type("schema", "delete", "orders-value", "--permanent", "--json").json
    assert forgotten == {"subject": "orders-value", "versions": [1, 2], "permanent": True}


def test_a_node_is_started_for_the_command_where_none_runs(terminal: Terminal) -> None:
    register(terminal, "orders-value", FIRST)
    assert "orders-value" in terminal.type("schema", "list").output
    assert json.loads(terminal.type("schema", "show", "orders-value").output) == FIRST


def test_another_registry_can_be_asked(terminal: Terminal, node: Node, tmp_path: Path) -> None:
    register(terminal, "orders-value", FIRST)
    elsewhere = ("--data", str(tmp_path / "none"), "--registry", node.http_url)
    assert "orders-value" in terminal.type("schema", "list", *elsewhere).output


@pytest.mark.parametrize(
    "words, sentence",
    [
        (("show", "nothing"), 'the registry has no subject "nothing"'),
        (("delete", "nothing"), 'the registry has no subject "nothing"'),
        (("show", "nothing", "--version", "x"), "'x' is not a version"),
        (("list", "--registry", "localhost:8080"), "is not a URL"),
        (("list", "--registry", "http://127.0.0.1:1"), "does not answer"),
        (("register", "s", "missing.avsc"), "missing.avsc"),
        (("register", "s", "-", "--reference", "x"), "is not NAME=SUBJECT:VERSION"),
        (("register", "s", "-", "--kind", "protobuf"), "the body has no schema"),
    ],
)
def test_a_mistake_is_reported_in_one_sentence(
    terminal: Terminal, node: Node, words: tuple[str, ...], sentence: str
) -> None:
    said = terminal.type("schema", *words)
    assert said.code == 1
    assert sentence in said.errors
    assert said.errors.count("\n") == 1


def test_a_node_without_an_http_port_is_recognized(terminal: Terminal) -> None:
    with Node(terminal.data, NodeSettings(wire=WireSettings(port=0))):
        said = terminal.type("schema", "list")
    assert (said.code, "its node has no HTTP port" in said.errors) == (1, True)
