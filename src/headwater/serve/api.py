"""The HTTP API of a node, put together: what can be asked, its document, and the figures."""

from importlib.metadata import version
from pathlib import Path
from threading import Event
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from headwater.log.log import Log
from headwater.query.query import Engine
from headwater.serve.answers import json_bytes
from headwater.serve.barriers import Barriers
from headwater.serve.bodies import Bodies
from headwater.serve.controls import CaptureControls, Controls
from headwater.serve.endpoints import Endpoint, routes_of_endpoints
from headwater.serve.history import History
from headwater.serve.live.subscriptions import Live
from headwater.serve.metrics import Metrics
from headwater.serve.openapi import document, failure
from headwater.serve.operations import Operations, Sources
from headwater.serve.queries import Queries
from headwater.serve.records import Decode
from headwater.serve.search import Search
from headwater.serve.stores import Stores
from headwater.serve.topics import TOPIC, Topics
from headwater.serve.views import Views
from headwater.settings import HttpSettings

PRODUCED: dict[str, Any] = {
    "type": "object",
    "required": ["topic", "records", "position", "stored"],
    "properties": {
        "topic": {"type": "string"},
        "records": {"type": "integer"},
        "position": {"type": "string", "description": "say it as at_least to read what was written"},
        "stored": {"type": "array", "items": {"type": "object"}},
    },
}


class Api:
    """Started by the first request; `stop` ends live subscriptions, `close` closes the databases."""

    def __init__(
        self, log: Log, data: Path, sources: Sources, settings: HttpSettings, *, decode: Decode | None = None
    ) -> None:
        self._stores, self._stopping = Stores(data), Event()
        longest = settings.position_wait_max.total_seconds()
        views = Views(self._stores, longest, self._stopping)
        operations = Operations(log, sources)
        self._live = Live(log, self._stores, settings, decode)
        metrics = Metrics(log, operations, views, self._live.figures)
        self.history = History(log, operations, data)
        self.endpoints: list[Endpoint] = [
            *Topics(log, decode, longest, self._stopping).endpoints(),
            *views.endpoints(),
            Search(data, self._stores).endpoint(),
            *operations.endpoints(),
            metrics.endpoint(),
            self.history.endpoint(),
        ]
        self._engine = Engine(self._stores, place_barrier=Barriers(log, data).place)
        self._queries = Queries(self._engine, Bodies(settings), self._stopping)
        self._controls, self._captures = Controls(sources.control), CaptureControls(sources.remove_capture)
        documents = (
            self._live.document(),
            self._queries.document(),
            self._controls.document(),
            self._captures.document(),
        )
        paths = {**_posting(), **{path: said for one in documents for path, said in one.items()}}
        self._document = json_bytes(document(self.endpoints, version=version("headwater"), more=paths))

    def view_name(self, said: str) -> str:
        """APP.VIEW of the view that is meant; raises as `Stores.find` does."""
        kept, name = self._stores.find(said)
        return f"{kept.app}.{name}"

    def routes(self) -> list[BaseRoute]:
        openapi = Route("/openapi.json", self._openapi, methods=["GET"])
        return [
            *self._live.routes(),
            *routes_of_endpoints(self.endpoints),
            *self._queries.routes(),
            *self._controls.routes(),
            *self._captures.routes(),
            openapi,
        ]

    async def _openapi(self, request: Request) -> Response:
        return Response(self._document, media_type="application/json")

    def stop(self) -> None:
        """May be called from any thread."""
        self._stopping.set()
        self._live.stop()

    def close(self) -> None:
        self._live.close()
        self._engine.close()
        self._stores.close()


def _posting() -> dict[str, Any]:
    """What the receiver of posts answers, in the words of the document."""
    body = {
        "application/json": {"schema": {"description": "the value of one record"}},
        "application/x-ndjson": {"schema": {"type": "string"}},
    }
    failures = (400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 503, 507)
    key = {
        "name": "key", "in": "query", "required": False, "schema": {"type": "string"},
        "description": "the property whose value is the record's key",
    }  # fmt: skip
    path = {"name": "topic", "in": "path", "required": True, "schema": TOPIC.schema, "description": TOPIC.about}
    once = {
        "name": "Idempotency-Key", "in": "header", "required": False,
        "schema": {"type": "string", "minLength": 1, "maxLength": 255},
        "description": "a name for this request: one that comes again is stored once",
    }  # fmt: skip
    answer = {"description": "stored and synced", "content": {"application/json": {"schema": PRODUCED}}}
    operation = {
        "operationId": "produce",
        "summary": "Store records",
        "tags": ["topics"],
        "parameters": [path, key, once],
        "requestBody": {"required": True, "content": body},
        "responses": {"200": answer, **{str(status): failure(status) for status in failures}},
    }
    return {"/topics/{topic}": {"post": operation}}
