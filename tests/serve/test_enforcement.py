"""The HTTP port of a node with logins: tokens stand for principals, who may do what the ACLs say, and see no more."""

import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from headwater.access.acls import CLUSTER_NAME, Operation, ResourceType
from headwater.log.topic import ACCESS_TOPIC
from headwater.node import Node
from headwater.serve.permissions import ROWS, needs_of
from headwater.serve.tokens import SCOPES, Tokens
from headwater.settings import SecuritySettings
from tests.access.secured import acl, certificates_in, secured_node
from tests.query.shops import shop
from tests.waiting import LONG

SUPER = SecuritySettings(mechanisms=("PLAIN",), super_users=("User:admin",))


class Answer(NamedTuple):
    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Browser:
    def __init__(self, node: Node, token: str = "") -> None:
        self._address, self._token = urlsplit(node.http_url).netloc, token

    def ask(self, method: str, path: str, body: bytes | None = None) -> Answer:
        connection = http.client.HTTPConnection(self._address, timeout=LONG)
        headers = {"authorization": f"Bearer {self._token}"} if self._token else {}
        if body is not None:
            headers["content-type"] = "application/json"
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return Answer(answer.status, answer.read())
        finally:
            connection.close()

    def status(self, method: str, path: str, body: bytes | None = None) -> int:
        return self.ask(method, path, body).status


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with secured_node(tmp_path_factory.mktemp("node"), SUPER, http=True) as node:
        yield node


@pytest.fixture(scope="module")
def tokens(node: Node) -> dict[str, str]:
    known = Tokens(node.data)
    every = tuple(SCOPES)
    made = {name: known.add(name, every, f"User:{name}") for name in ("alice", "bob", "admin")}
    return {**made, "reader": known.add("reader", ("read",), "User:alice"), "own": known.add("own", every)}


@pytest.fixture
def alice(node: Node, tokens: dict[str, str]) -> Browser:
    return Browser(node, tokens["alice"])


@pytest.fixture
def bob(node: Node, tokens: dict[str, str]) -> Browser:
    return Browser(node, tokens["bob"])


ALLOWED = [
    # what is asked, and the answers to: no token, one that stands for nobody known, bob without ACLs, alice, the admin
    ("GET", "/topics/orders", (401, 403, 403, 200, 200)),
    ("GET", "/topics/orders/records", (401, 403, 403, 200, 200)),
    ("GET", "/topics/payroll", (401, 403, 403, 403, 200)),
    ("GET", "/topics/payroll/records", (401, 403, 403, 403, 200)),
    ("GET", "/topics/nothing", (401, 403, 403, 403, 404)),
    ("POST", "/topics/orders", (401, 403, 403, 200, 200)),
    ("POST", "/topics/payroll", (401, 403, 403, 403, 200)),
    ("GET", "/groups/shop", (401, 403, 403, 404, 404)),
    ("GET", "/views/shop.totals", (401, 403, 403, 403, 404)),
    ("GET", "/views/shop.totals/rows", (401, 403, 403, 403, 404)),
    ("GET", "/flows/shop", (401, 403, 403, 403, 404)),
    ("POST", "/flows/shop/pause", (401, 403, 403, 403, 404)),
    ("DELETE", "/captures/shop", (401, 403, 403, 403, 404)),
    ("GET", "/subjects/payroll-value/versions", (401, 403, 403, 403, 404)),
    ("GET", "/subjects/orders-value/versions", (401, 403, 403, 404, 404)),
    ("GET", "/metrics", (401, 403, 403, 403, 200)),
    ("GET", "/problems", (401, 403, 403, 403, 200)),
    ("GET", "/health", (200, 200, 200, 200, 200)),
]  # fmt: skip


@pytest.mark.parametrize("method, path, statuses", ALLOWED, ids=[f"{method} {path}" for method, path, _ in ALLOWED])
def test_the_answer_to_each_client(
    method: str, path: str, statuses: tuple[int, ...], node: Node, tokens: dict[str, str]
) -> None:
    body = b'{"value": 1}' if path.startswith("/topics") and method == "POST" else None
    clients = [Browser(node), *[Browser(node, tokens[name]) for name in ("own", "bob", "alice", "admin")]]
    assert tuple(client.status(method, path, body) for client in clients) == statuses


@pytest.mark.parametrize("root", ["topics", "groups", "views", "flows", "captures", "subjects"])
def test_lists_have_no_name_that_may_not_be_seen(root: str, bob: Browser) -> None:
    answer = bob.ask("GET", f"/{root}")
    assert (answer.status, answer.json) == (200, [])


def test_a_list_has_what_may_be_seen(alice: Browser) -> None:
    assert [one["name"] for one in alice.ask("GET", "/topics").json] == ["orders"]


def test_a_refusal_says_the_same_of_what_exists_and_of_what_does_not(alice: Browser) -> None:
    hidden, missing = alice.ask("GET", "/topics/payroll"), alice.ask("GET", "/topics/nothing")
    assert hidden.body.replace(b"payroll", b"nothing") == missing.body


@pytest.mark.parametrize(
    "path",
    [f"/topics/{ACCESS_TOPIC}/records", f"/topics/{ACCESS_TOPIC.replace('_', '%5F')}/records",
     f"//topics//{ACCESS_TOPIC}//records", f"/topics/{ACCESS_TOPIC}/records/", f"/./topics/{ACCESS_TOPIC}/records"],
)  # fmt: skip
def test_the_topic_with_the_passwords_is_shown_to_no_client(path: str, node: Node, tokens: dict[str, str]) -> None:
    answer = Browser(node, tokens["admin"]).ask("GET", path)
    assert answer.status in (403, 404)
    assert b"SCRAM" not in answer.body


def test_a_token_does_no_more_than_its_scopes(node: Node, tokens: dict[str, str]) -> None:
    reader = Browser(node, tokens["reader"])
    assert reader.status("GET", "/topics/orders") == 200
    assert reader.status("POST", "/topics/orders", b'{"value": 1}') == 403


def test_a_token_of_its_own_is_a_principal_that_acls_can_name(node: Node, tokens: dict[str, str]) -> None:
    assert Browser(node, tokens["own"]).status("GET", "/topics/orders") == 403
    add = acl("Token:own", Operation.DESCRIBE, "orders")
    from headwater.cli.access_client import AccessClient
    from headwater.kafka_login import local_login
    from headwater.settings import LOCAL_TOKEN_FILE, NODE_FILE

    with local_login(node.data / LOCAL_TOKEN_FILE):
        AccessClient(json.loads((node.data / NODE_FILE).read_text())["kafka"]).add_acls([add])
    assert Browser(node, tokens["own"]).status("GET", "/topics/orders") == 200


def test_what_no_row_names_is_for_administrators() -> None:
    (need,) = needs_of("POST", ["something", "new"])
    assert (need.operation, need.resource_type, need.name) == (Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
    assert len({(tuple(row.methods), row.path) for row in ROWS}) == len(ROWS)


def test_the_http_port_is_encrypted_with_the_kafka_port(tmp_path: Any) -> None:
    certificates = certificates_in(tmp_path / "certificates")
    with secured_node(tmp_path / "data", certificates.settings(mechanisms=("PLAIN",)), http=True) as node:
        assert node.http_url.startswith("https://")
        made = Tokens(node.data).add("alice", ("read",), "User:alice")
        host, _, port = urlsplit(node.http_url).netloc.rpartition(":")
        secure = http.client.HTTPSConnection("localhost", int(port), context=certificates.context(), timeout=LONG)
        secure.request("GET", "/topics/orders", headers={"authorization": f"Bearer {made}"})
        assert secure.getresponse().status == 200
        secure.close()
        with socket.create_connection((host, int(port)), timeout=LONG) as plain:
            plain.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert not plain.recv(100).startswith(b"HTTP")


@pytest.fixture(scope="module")
def views(node: Node) -> None:
    """Revenue and users of a shop; alice may read revenue."""
    shop(node.data).close()
    from headwater.cli.access_client import AccessClient
    from headwater.kafka_login import local_login
    from headwater.settings import LOCAL_TOKEN_FILE, NODE_FILE

    with local_login(node.data / LOCAL_TOKEN_FILE):
        address = json.loads((node.data / NODE_FILE).read_text())["kafka"]
        AccessClient(address).add_acls([acl("User:alice", Operation.READ, "view:shop.revenue")])


def question(sql: str, **more: Any) -> bytes:
    return json.dumps({"sql": sql, **more}).encode()


@pytest.mark.usefixtures("views")
@pytest.mark.parametrize("explain", [False, True])
def test_a_query_reads_the_views_that_its_client_may_read_and_knows_no_others(
    explain: bool, alice: Browser, bob: Browser, node: Node, tokens: dict[str, str]
) -> None:
    allowed = question("SELECT count(*) AS rows FROM revenue", explain=explain)
    both = question("SELECT count(*) FROM revenue, shop.users", explain=explain)
    assert alice.status("POST", "/query", allowed) == 200
    refused = alice.ask("POST", "/query", both)
    assert refused.status == 422
    assert 'no view \\"shop.users\\"' in refused.body.decode()
    assert "There are shop.revenue." in refused.body.decode()
    nothing = bob.ask("POST", "/query", allowed)
    assert nothing.status == 422
    assert "There are no views" in nothing.body.decode()
    assert Browser(node, tokens["admin"]).status("POST", "/query", both) == 200
    assert Browser(node).status("POST", "/query", allowed) == 401
