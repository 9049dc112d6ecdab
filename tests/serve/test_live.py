"""Live views and topics: nothing is missed, nothing is sent twice, and a client that does not read costs little."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect as connect_websocket

import headwater as hw
from headwater.client import Change, Message, RemoteNode, parse_events
from headwater.errors import RequestRefused
from headwater.record import Record
from headwater.settings import HttpSettings
from tests.serve.shop import Shop, fill, open_shop
from tests.waiting import LONG, patience


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with open_shop(tmp_path / "data") as opened:
        fill(opened)
        yield opened


def node_of(shop: Shop) -> RemoteNode:
    return hw.connect(shop.node.http_url)


def row(country: str, orders: int) -> dict[str, object]:
    return {"country": country, "amount": "1.00", "orders": orders}


def first(messages: Iterator[Any], count: int) -> list[Any]:
    return list(islice(messages, count))


def test_a_view_is_sent_as_a_snapshot_and_then_each_change(shop: Shop) -> None:
    watching = node_of(shop).view("revenue").watch()
    received = first(watching, 5)
    assert received[0] == Change("reset", {}, None)
    assert {one.key["country"] for one in received[1:]} == {None, "DE", "FR", "IT"}
    shop.write([row("DE", 4), {"country": "FR", "_op": "d"}])
    assert sorted(first(watching, 2)) == [
        ("delete", {"country": "FR"}, None),
        ("upsert", {"country": "DE"}, {"country": "DE", "amount": "1.00", "orders": 4}),
    ]


def messages(shop: Shop, after: str = "", **query: object) -> Iterator[Message]:
    return node_of(shop).messages("/views/revenue/live", query, after)


def test_a_resumed_subscriber_gets_what_came_since_and_nothing_again(shop: Shop) -> None:
    with closing(messages(shop)) as following:  # type: ignore[type-var]
        begun = next(following)
    for number in range(3):
        shop.write([row("DE", 10 + number), row(f"C{number}", 1)])
    with closing(messages(shop, begun.id)) as following:  # type: ignore[type-var]
        received = [one for message in first(following, 3) for one in message.data["changes"]]
    assert sorted((one["key"]["country"], one["row"]["orders"]) for one in received) == [
        ("C0", 1), ("C1", 1), ("C2", 1), ("DE", 12),
    ]  # fmt: skip
    with closing(messages(shop, "0-2")) as following:  # type: ignore[type-var]
        assert [next(following).id, next(following).id] == ["0-3", "0-4"]


def test_one_key_and_rows_that_fit_can_be_followed_alone(shop: Shop) -> None:
    view = node_of(shop).view("revenue")
    one, many = view.watch(key=["DE"]), view.watch(where=["orders > 2"])
    assert [change.key.get("country") for change in first(one, 2)] == [None, "DE"]
    assert {change.key.get("country") for change in first(many, 3)} == {None, "DE", "IT"}
    shop.write([row("FR", 1), row("IT", 1), row("ES", 7)])
    shop.write([row("DE", 8)])
    assert [(change.op, change.key["country"]) for change in first(one, 1)] == [("upsert", "DE")]
    received = {(change.op, change.key["country"]) for change in first(many, 3)}
    assert received == {("delete", "IT"), ("upsert", "ES"), ("upsert", "DE")}


def test_a_view_that_was_rebuilt_is_sent_again(shop: Shop) -> None:
    with closing(messages(shop, "7-1")) as following:  # type: ignore[type-var]
        assert next(following).kind == "snapshot"


def test_a_large_write_is_sent_in_parts_of_which_only_the_last_can_be_resumed_at(shop: Shop) -> None:
    following = messages(shop, snapshot="false")
    next(following)
    shop.write([row(f"C{number}", number) for number in range(1200)])
    parts = first(following, 3)
    assert [(len(one.data["changes"]), one.data["more"], one.id) for one in parts] == [
        (500, True, ""), (500, True, ""), (200, False, "0-2"),
    ]  # fmt: skip


def test_records_of_a_topic_are_sent_as_they_arrive_and_resumed_at_an_offset(shop: Shop) -> None:
    node = node_of(shop)
    with closing(node.messages("/topics/orders/live", {})) as following:  # type: ignore[type-var]
        assert next(following).id == "0:20,1:1"
        shop.node.log.append("orders", Record(b"new"), partition=1)
        received = next(following)
        assert (received.data["records"][0]["value"]["text"], received.id) == ("new", "0:20,1:2")
    shop.node.log.append("orders", Record(b"newer"), partition=0)
    with closing(node.follow("orders", after=received.id)) as records:  # type: ignore[type-var]
        assert next(records)["value"]["text"] == "newer"
    with closing(node.follow("orders", begin="start")) as records:  # type: ignore[type-var]
        assert len(first(records, 23)) == 23


def test_a_subscriber_behind_retention_gets_an_error(shop: Shop) -> None:
    shop.node.log.partition("orders", 0).delete_records(5)
    with pytest.raises(RequestRefused) as refused:
        next(node_of(shop).messages("/topics/orders/live", {}, "0:3,1:0"))
    assert (refused.value.status, refused.value.name) == (416, "OffsetOutOfRange")


@pytest.mark.parametrize(
    "path, status, name",
    [
        ("/views/nothing/live", 404, "UnknownView"),
        ("/views/revenue/live?after=x", 400, "InvalidParameter"),
        ("/views/revenue/live?where=nothing%20%3D%201", 422, "InvalidQuery"),
        ("/views/revenue/live?key=DE&where=orders%20%3D%201", 400, "InvalidParameter"),
        ("/topics/nothing/live", 404, "UnknownTopic"),
        ("/topics/orders/live?partition=9", 404, "UnknownPartition"),
    ],
)
def test_what_cannot_be_followed_is_an_error_with_its_status(shop: Shop, path: str, status: int, name: str) -> None:
    answer = shop.get(path)
    assert (answer.status, answer.json["error"]) == (status, name)
    assert shop.get("/metrics").body.decode().count("headwater_live_subscribers 0\n") == 1


def test_a_websocket_receives_the_same(shop: Shop) -> None:
    url = shop.node.http_url.replace("http", "ws")
    with connect_websocket(f"{url}/views/revenue/live") as opened:
        begun = json.loads(opened.recv(10))
        assert (begun["event"], begun["id"], len(begun["data"]["rows"])) == ("snapshot", "0-1", 4)
        shop.write([row("DE", 5)])
        assert json.loads(opened.recv(10))["data"]["changes"][0]["row"]["orders"] == 5
    with connect_websocket(f"{url}/views/nothing/live") as opened:
        assert json.loads(opened.recv(10))["data"]["error"] == "UnknownView"


def test_a_page_of_another_site_cannot_open_a_websocket(shop: Shop) -> None:
    from websockets.exceptions import InvalidStatus

    url = shop.node.http_url.replace("http", "ws")
    with pytest.raises(InvalidStatus, match="403"):
        connect_websocket(f"{url}/views/revenue/live", additional_headers={"Origin": "http://evil.example"})


def test_a_client_resumes_by_itself_when_the_node_is_restarted(tmp_path: Path) -> None:
    port = free_port()
    from headwater.node import Node
    from headwater.settings import NodeSettings, WireSettings

    settings = NodeSettings(wire=WireSettings(port=0), http=HttpSettings(port=port))
    received: list[Change] = []
    seen = threading.Event()

    def watch() -> None:
        for change in hw.connect(f"http://127.0.0.1:{port}").view("revenue").watch():
            received.append(change)
            if change.key.get("country") == "END":
                seen.set()
                return

    with open_shop(tmp_path / "data") as writer:  # its node is another one, which only lends its store
        writer.write([row("DE", 1)])
        Path(tmp_path / "own" / "views").mkdir(parents=True)
        (tmp_path / "own" / "views" / "shop.sqlite").symlink_to(writer.node.data / "views" / "shop.sqlite")
        for suffix in ("-wal", "-shm"):
            (tmp_path / "own" / "views" / f"shop.sqlite{suffix}").symlink_to(
                writer.node.data / "views" / f"shop.sqlite{suffix}"
            )
        with Node(tmp_path / "own", settings):
            thread = threading.Thread(target=watch, daemon=True)
            thread.start()
            while len(received) < 2:
                time.sleep(0.01)
        for number in range(5):
            writer.write([row(f"C{number}", number)])
        with Node(tmp_path / "own", settings):
            writer.write([row("END", 1)])
            assert seen.wait(LONG)
    countries = [change.key.get("country") for change in received]
    assert countries == [None, "DE", "C0", "C1", "C2", "C3", "C4", "END"]
    assert [change.op for change in received].count("reset") == 1


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


def test_who_stops_reading_is_hung_up_on_and_can_resume(tmp_path: Path) -> None:
    settings = HttpSettings(stalled_subscriber_timeout=timedelta(seconds=0.5))
    with open_shop(tmp_path / "data", settings) as shop:
        fill(shop)
        host, _, port = shop.node.http_url.removeprefix("http://").rpartition(":")
        with socket.create_connection((host, int(port))) as lazy:
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            lazy.sendall(b"GET /views/revenue/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            begun = lazy.recv(4096)
            assert begun.startswith(b"HTTP/1.1 200")
            deadline = patience() + 30
            number = 0
            while b"headwater_live_hung_up_total 1\n" not in shop.get("/metrics").body:
                number += 1
                shop.write([row(f"{'x' * 400}{one}", number) for one in range(500)])
                assert patience() < deadline, "it is kept for ever"
        with closing(messages(shop, "0-1")) as following:  # type: ignore[type-var]
            assert next(following).kind in ("changes", "snapshot")


def test_events_that_are_cut_off_are_none() -> None:
    whole = b'id: 1\nevent: changes\ndata: {"a":1}\n\n'
    for cut in range(len(whole)):
        lines = whole[:cut].splitlines(keepends=True)
        complete = [line for line in lines if line.endswith(b"\n")]
        assert list(parse_events(iter(complete))) == []
    assert list(parse_events(iter(whole.splitlines(keepends=True)))) == [Message("changes", "1", {"a": 1})]
