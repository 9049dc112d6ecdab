"""Hooks from the command line; a node that runs knows of them at once."""

import json
from collections.abc import Iterator
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from headwater import Node, NodeSettings, WireSettings
from headwater.settings import HttpSettings
from tests.capture.http.signing import SECRET, signed
from tests.cli.conftest import Terminal
from tests.waiting import LONG


@pytest.fixture
def node(terminal: Terminal) -> Iterator[Node]:
    with Node(terminal.data, NodeSettings(wire=WireSettings(port=0), http=HttpSettings(port=0))) as node:
        node.log.create_topic("pushes")
        yield node


def add(terminal: Terminal, *words: str, secret: str = SECRET) -> int:
    (terminal.folder / "secret").write_text(f"{secret}\n")
    return terminal.type("hook", "add", "pay", "--topic", "pushes", "--secret-file", "secret", *words).code


def post(node: Node, body: bytes, headers: dict[str, str]) -> int:
    request = Request(f"{node.http_url}/hooks/pay", body, {"content-type": "application/json", **headers})
    try:
        with urlopen(request, timeout=LONG) as answer:
            return int(answer.status)
    except HTTPError as refused:
        with refused:
            return refused.code


def test_a_hook_takes_what_is_signed_until_it_is_removed(terminal: Terminal, node: Node) -> None:
    assert post(node, b"{}", signed("github", b"{}")) == 404
    assert add(terminal, "--scheme", "github") == 0
    assert post(node, b"{}", signed("github", b"{}")) == 200
    assert post(node, b"{}", {}) == 401
    assert terminal.type("hook", "remove", "pay").output == "removed hook pay\n"
    assert post(node, b"[]", signed("github", b"[]")) == 404
    assert [record.value for record in node.log.read("pushes")] == [b"{}"]


def test_a_hook_can_be_changed_and_its_secret_is_never_shown(terminal: Terminal) -> None:
    assert add(terminal) == 0
    assert add(terminal, "--scheme", "slack", "--key", "id") == 0
    assert terminal.type("hook", "list", "--json").json == [
        {"hook": "pay", "topic": "pushes", "scheme": "slack", "key": "id"}
    ]
    assert terminal.type("hook", "list").output.split() == [
        "hook", "topic", "scheme", "key", "pay", "pushes", "slack", "id"]  # fmt: skip
    assert json.loads((terminal.data / "hooks" / "pay.json").read_text())["content"]["secrets"] == [SECRET]


def test_a_mistake_is_reported_in_one_sentence(terminal: Terminal) -> None:
    assert "headwater hook add" in terminal.type("hook", "list").output
    assert add(terminal, secret="short") == 1
    assert add(terminal, secret="") == 1
    said = terminal.type("hook", "remove", "pay")
    assert (said.code, said.errors) == (1, 'headwater: there is no hook "pay". Make one with "headwater hook add".\n')
