"""While schemas are compared, which may take a while, everything else is answered."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from headwater.registry.json_schema import kind as json_kind
from headwater.settings import HttpSettings, NodeSettings
from headwater.testing import running_node
from tests.serve.shop import Said, Shop
from tests.waiting import LONG

MANY = 60
"""More than there are threads for requests."""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with running_node(tmp_path, NodeSettings(http=HttpSettings())) as node:
        node.log.create_topic("orders")
        yield Shop(node, None)  # type: ignore[arg-type]


def register(shop: Shop, subject: str, schema: Any) -> Said:
    body = json.dumps({"schemaType": "JSON", "schema": json.dumps(schema)}).encode()
    return shop.ask("POST", f"/subjects/{subject}/versions", body, {"content-type": "application/json"})


@pytest.mark.parametrize("slow", [1, MANY], ids=["one", "many"])
def test_other_requests_are_answered_while_schemas_are_compared(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, slow: int
) -> None:
    comparing, go_on = threading.Event(), threading.Event()

    def unreadable(reader: object, writer: object, budget: object) -> list[str]:
        comparing.set()
        assert go_on.wait(LONG)
        return []

    assert register(shop, "a", {"type": "integer"}).status == 200
    monkeypatch.setattr(json_kind, "KIND", json_kind.KIND._replace(unreadable=unreadable))
    with ThreadPoolExecutor(MANY) as threads:
        try:
            asked = [threads.submit(register, shop, "a", {"type": "number", "title": f"{n}"}) for n in range(slow)]
            assert comparing.wait(LONG)
            for _ in range(3):
                for path in ("/topics", "/metrics", "/subjects/a/versions", "/schemas/ids/1", "/topics/orders/records"):
                    assert shop.get(path).status == 200
            assert shop.ask("POST", "/topics/orders", b"{}", {"content-type": "application/json"}).status == 200
            assert not any(one.done() for one in asked)
        finally:
            go_on.set()
        assert {one.result(LONG).status for one in asked} == {200}
    assert len(shop.get("/subjects/a/versions").json) == slow + 1


def test_a_pattern_that_would_take_for_ever_does_not(shop: Shop) -> None:
    """The issue's own: a node that used an engine which goes back stood still for 40 s, and much longer here."""
    assert register(shop, "b", {"type": "object", "patternProperties": {"^(a+)+$": {"type": "string"}}}).status == 200
    said = register(shop, "b", {"type": "object", "properties": {"a" * 5000 + "!": {"type": "integer"}}})
    assert said.status in (200, 409, 422), said.body
