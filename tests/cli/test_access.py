"""headwater user, acl, cert: on a node with logins, from first to last."""

import json
import stat
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from headwater import Node, NodeSettings, WireSettings
from headwater.settings import SecuritySettings
from tests.cli.conftest import Terminal
from tests.waiting import wait_until

PASSWORD = "correct horse"


@pytest.fixture
def node(terminal: Terminal) -> Iterator[Node]:
    security = SecuritySettings(mechanisms=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"))
    with Node(terminal.data, NodeSettings(wire=WireSettings(port=0), security=security)) as node:
        yield node


def write_as(user: str, password: str, node: Node) -> str:
    """ "" or the name of the error of one record; "login" if there is no login."""
    said: list[str] = []
    refused: list[Any] = []
    producer = Producer({
        "bootstrap.servers": node.kafka_address, "security.protocol": "sasl_plaintext", "error_cb": refused.append,
        "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": user, "sasl.password": password,
    })  # fmt: skip
    producer.produce("orders", b"1", on_delivery=lambda error, _: said.append("" if error is None else error.name()))

    def known() -> bool:
        producer.poll(0.1)
        return bool(said) or any(one.name() == "_AUTHENTICATION" for one in refused)

    wait_until(known, "an answer")
    producer.purge()
    return said[0] if said else "login"


def test_a_user_is_added_allowed_denied_and_removed(terminal: Terminal, node: Node) -> None:
    assert terminal.type("topic", "create", "orders").code == 0
    assert "no users" in terminal.type("user", "list").output
    assert write_as("alice", PASSWORD, node) == "login"
    added = terminal.type("user", "add", "alice", "--password-file", "-", stdin=f"{PASSWORD}\n")
    assert (added.code, PASSWORD in added.output + added.errors) == (0, False)
    assert terminal.type("user", "list", "--json").json == [
        {"user": "alice", "mechanisms": ["SCRAM-SHA-256", "SCRAM-SHA-512"]}
    ]
    assert write_as("alice", PASSWORD, node) == "TOPIC_AUTHORIZATION_FAILED"
    assert terminal.type("acl", "add", "User:alice", "--topic", "ord", "--prefix", "--operation", "write").code == 0
    assert write_as("alice", PASSWORD, node) == ""
    assert terminal.type("acl", "add", "User:*", "--topic", "orders", "--operation", "all", "--deny").code == 0
    assert write_as("alice", PASSWORD, node) == "TOPIC_AUTHORIZATION_FAILED"
    assert "removed 1 ACL" in terminal.type("acl", "remove", "--principal", "User:*", "--deny").output
    assert write_as("alice", PASSWORD, node) == ""
    assert terminal.type("user", "add", "alice", "--password-file", "-", stdin="another password\n").code == 0
    assert write_as("alice", PASSWORD, node) == "login"
    assert terminal.type("user", "remove", "alice").code == 0
    assert write_as("alice", "another password", node) == "login"
    again = terminal.type("user", "remove", "alice")
    assert (again.code, "no user 'alice'" in again.errors) == (1, True)


def test_a_topic_is_consumed_by_a_user_who_may_read_it_and_use_no_group(
    terminal: Terminal, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal.type("topic", "create", "orders")
    terminal.type("produce", "orders", stdin="a\nb\n")
    (terminal.folder / "password").write_text(PASSWORD)
    terminal.type("user", "add", "alice", "--password-file", "password")
    terminal.type("acl", "add", "User:alice", "--topic", "orders", "--operation", "read")
    monkeypatch.setenv("HEADWATER_KAFKA_USER", "alice")
    monkeypatch.setenv("HEADWATER_KAFKA_PASSWORD_FILE", str(terminal.folder / "password"))
    read = terminal.type("consume", "orders", "--kafka", node.kafka_address)
    assert (read.code, read.output) == (0, "a\nb\n")
    as_member = terminal.type("consume", "orders", "--kafka", node.kafka_address, "--group", "shop")
    assert (as_member.code, "roup authorization failed" in as_member.errors) == (1, True)


def test_a_password_that_is_too_short_or_nowhere_is_refused(terminal: Terminal, node: Node) -> None:
    short = terminal.type("user", "add", "alice", "--password-file", "-", stdin="secret\n")
    assert (short.code, "8 to 1000 characters" in short.errors, "secret" in short.errors) == (1, True, False)
    nowhere = terminal.type("user", "add", "alice")
    assert (nowhere.code, "--password-file" in nowhere.errors) == (1, True)


def test_acls_of_every_kind_of_resource_are_listed_as_they_were_added(terminal: Terminal, node: Node) -> None:
    said = [
        ("--topic", "orders", "read"), ("--group", "shop", "read"), ("--transactional-id", "pay", "write"),
        ("--view", "totals", "read"), ("--schema", "orders-value", "read"), ("--flow", "shop", "alter"),
        ("--capture", "shop", "delete"),
    ]  # fmt: skip
    added = [terminal.type("acl", "add", "User:alice", kind, name, "--operation", what) for kind, name, what in said]
    assert [one.code for one in added] == [0] * len(said)
    assert (
        terminal.type("acl", "add", "User:alice", "--cluster", "--operation", "describe", "--host", "127.0.0.9").code
        == 0
    )
    listed = {
        (row["resource"], row["name"], row["operation"], row["host"])
        for row in terminal.type("acl", "list", "--json").json
    }
    assert listed == {
        ("topic", "orders", "read", "*"), ("group", "shop", "read", "*"), ("transactional-id", "pay", "write", "*"),
        ("topic", "view:totals", "read", "*"), ("topic", "schema:orders-value", "read", "*"),
        ("topic", "flow:shop", "alter", "*"), ("topic", "capture:shop", "delete", "*"),
        ("cluster", "kafka-cluster", "describe", "127.0.0.9"),
    }  # fmt: skip
    assert len(terminal.type("acl", "list", "--view", "totals", "--json").json) == 1


@pytest.mark.parametrize(
    "words, why",
    [
        (["add", "User:alice", "--operation", "read"], "say what it is about"),
        (["add", "User:alice", "--topic", "orders"], "say what may be done"),
        (["add", "alice", "--topic", "orders", "--operation", "read"], "TYPE:NAME"),
        (["add", "User:alice", "--group", "shop", "--operation", "write"], "does not exist for GROUP"),
        (["remove"], "all ACLs would go"),
    ],
)
def test_what_cannot_be_an_acl_is_refused_with_the_reason(
    words: list[str], why: str, terminal: Terminal, node: Node
) -> None:
    refused = terminal.type("acl", *words)
    assert refused.code != 0
    assert why in refused.errors


def test_certificates_are_made_for_an_authority_a_server_and_a_client(terminal: Terminal) -> None:
    missing = terminal.type("cert", "server")
    assert (missing.code, "headwater cert authority" in missing.errors) == (1, True)
    assert terminal.type("cert", "authority").code == 0
    assert terminal.type("cert", "server", "--host", "node.example").code == 0
    made = json.loads(terminal.type("cert", "client", "alice", "--json").output)
    keys = sorted((terminal.folder / "certificates").glob("*.key"))
    assert [key.name for key in keys] == ["alice.key", "authority.key", "server.key"]
    assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}
    assert made["certificate"].endswith("alice.pem")
    again = terminal.type("cert", "authority")
    assert (again.code, "already" in again.errors) == (1, True)
    assert terminal.type("cert", "client", "../alice").code == 1
