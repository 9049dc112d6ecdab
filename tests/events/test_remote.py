"""A node over HTTP as a storage of events: the contract of the embedded log, and a store of aggregates on it."""

import json
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import headwater.events as ev
from headwater.client import RemoteNode, connect
from headwater.errors import RequestRefused, UnavailableError, UsageError
from headwater.events.remote import RemoteEvents
from headwater.log.topic import ACCESS_TOPIC
from headwater.node import Node
from headwater.settings import HttpSettings, NodeSettings
from headwater.testing import running_node
from tests.contracts.event_storage import EventStorageContract, append
from tests.events.theatre import Seat


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with running_node(tmp_path, NodeSettings(http=HttpSettings())) as node:
        yield node


class TestOverHttp(EventStorageContract):
    @pytest.fixture
    def events(self, node: Node) -> RemoteEvents:
        return RemoteEvents(connect(node.http_url), "seats")

    @pytest.fixture
    def again(self, tmp_path: Path, node: Node) -> Iterator[Callable[[], RemoteEvents]]:
        running = []

        def restart() -> RemoteEvents:
            node.stop()
            context = running_node(tmp_path, NodeSettings(http=HttpSettings()))
            running.append(context)
            return RemoteEvents(connect(context.__enter__().http_url), "seats")

        yield restart
        for context in running:
            context.__exit__(None, None, None)


def test_aggregates_on_a_node(node: Node) -> None:
    with ev.connect(node.http_url) as store:
        done = store.handle(Seat, "12A", "reserve", user="ada", id="request-77")
        with pytest.raises(ev.Rejected):
            store.handle(Seat, "12A", "reserve", user="bob")
        assert store.handle(Seat, "12A", "reserve", user="ada", id="request-77").repeated
        assert (done.position, store.load(Seat, "12A").holder) == ("events/0@0", "ada")
        [record] = connect(node.http_url).records("events")["records"]
        assert record["key"]["text"] == "Seat-12A"


def ask(node: Node, method: str, path: str, body: object = None) -> tuple[int, dict[str, object]]:
    address = urlsplit(node.http_url)
    connection = HTTPConnection(address.hostname or "", address.port)
    connection.request(method, path, body=None if body is None else json.dumps(body))
    answer = connection.getresponse()
    said = answer.status, json.loads(answer.read())
    connection.close()
    return said


def test_an_append_by_hand(node: Node) -> None:
    assert ask(node, "PUT", "/events/seats")[0] == 200
    write = {"stream": "s", "expected": "none", "events": [{"type": "Reserved", "data": {"user": "ada"}}]}
    status, said = ask(node, "POST", "/events/seats", {"writes": [write]})
    assert (status, said["position"]) == (200, "seats/0@0")
    status, said = ask(node, "POST", "/events/seats", {"writes": [write]})
    assert (status, said["error"], said["actual"]) == (409, "WrongVersion", 1)
    assert ask(node, "GET", "/events/seats/s")[1]["version"] == 1


@pytest.mark.parametrize(
    "body",
    [{}, [], {"writes": []}, {"writes": [{"stream": "s"}]}, {"writes": [{"stream": 5, "events": []}]},
     {"writes": [{"stream": "s", "events": [{"type": "A", "base64": "?"}]}]},
     {"writes": [{"stream": "s", "events": [{"type": "A", "data": 1, "tags": [7]}]}]},
     {"writes": [{"stream": "s", "events": [{"type": "A", "data": 1}], "expected": "new"}]},
     {"writes": [{"stream": "s", "events": [{"type": "A", "data": 1}]}], "unless": {"matches": 5}}],
)  # fmt: skip
def test_what_is_no_append_is_refused_with_a_sentence(node: Node, body: object) -> None:
    ask(node, "PUT", "/events/seats")
    status, said = ask(node, "POST", "/events/seats", body)
    assert (status, said["error"]) == (422, "UsageError")
    assert ask(node, "GET", "/events/seats")[1]["events"] == []


@pytest.mark.parametrize("path", ["?after=x", "?limit=0", "?match={", "?match=5", "/s?after=-1", "/s?until=x"])
def test_what_cannot_be_asked_is_refused_with_a_sentence(node: Node, path: str) -> None:
    ask(node, "PUT", "/events/seats")
    assert ask(node, "GET", f"/events/seats{path}")[0] == 422


def test_other_topics_are_not_read_as_events(node: Node) -> None:
    node.log.create_topic("orders")
    assert ask(node, "GET", "/events/orders")[0] == 422
    assert ask(node, "GET", f"/events/{ACCESS_TOPIC}")[0] == 404
    assert ask(node, "PUT", f"/events/{ACCESS_TOPIC}")[0] == 404
    assert ask(node, "GET", "/events/nothing")[0] == 404
    assert ask(node, "GET", "/events/a/b/c")[0] == 404


def test_a_node_that_does_not_answer_leaves_an_append_without_a_request_unknown(node: Node) -> None:
    events = RemoteEvents(connect(node.http_url), "seats")
    node.stop()
    with pytest.raises(UnavailableError, match="may have stored"):
        append(events, "s", "A")


def test_a_refusal_of_another_kind_stays_what_it_is(node: Node) -> None:
    events = RemoteEvents(connect(node.http_url), "seats")
    node.log.delete_topic("seats")
    with pytest.raises(RequestRefused, match="no topic"):
        append(events, "s", "A")


def test_a_name_that_cannot_be_is_refused(node: Node) -> None:
    with pytest.raises((UsageError, RequestRefused)):
        RemoteEvents(RemoteNode(node.http_url), "no topic")
