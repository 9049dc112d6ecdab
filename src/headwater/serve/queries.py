"""POST /query: a SELECT over views."""

import asyncio
import json
from collections.abc import Mapping
from threading import Event
from typing import Any, NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from headwater.errors import HeadwaterError
from headwater.query.catalogue import Sees, sees_all
from headwater.query.query import ROWS, SECONDS, SECONDS_MAX, Answer, Asked, Engine, Prepared
from headwater.query.rows import csv_bytes, ndjson_bytes, rows_of, type_name
from headwater.query.workers import ROWS_MAX
from headwater.serve.answers import Invalid, answer_to_error, json_bytes
from headwater.serve.bodies import Bodies, Unread
from headwater.serve.enforcement import SEES
from headwater.serve.openapi import failure
from headwater.serve.positions import LONGEST, PATTERN, next_offsets
from headwater.serve.services import failed
from headwater.serve.topics import pause
from headwater.serve.views import POSITION, ROW, position_json
from headwater.views.mark import Offsets

ASKING_MAX = 64
COMPUTING_MAX = 4
SQL_LETTERS_MAX = 20_000
FOLLOW_SECONDS = 0.2
FORMATS = {"json": "application/json", "csv": "text/csv", "ndjson": "application/x-ndjson"}
TIMEOUT_MS_MAX = round(1000 * SECONDS_MAX)

BODY: dict[str, Any] = {
    "type": "object",
    "required": ["sql"],
    "additionalProperties": False,
    "properties": {
        "sql": {
            "type": "string", "minLength": 1, "maxLength": SQL_LETTERS_MAX,
            "description": "one SELECT over views, in Spark's dialect",
        },
        "at_least": {
            "type": "string", "pattern": PATTERN, "maxLength": LONGEST,
            "description": "wait until the views include these records, as TOPIC/PARTITION@OFFSET",
        },
        "one_position": {
            "type": "boolean", "default": False,
            "description": "wait until all views that are read are at one position of the topics that they share",
        },
        "after": {
            "type": "string", "maxLength": LONGEST,
            "description": "the version of an earlier answer: wait until one of the views has changed since",
        },
        "limit": {"type": "integer", "minimum": 1, "maximum": ROWS_MAX, "default": ROWS},
        "timeout_ms": {
            "type": "integer", "minimum": 1, "maximum": TIMEOUT_MS_MAX, "default": round(1000 * SECONDS),
            "description": "how long waiting and computing may take together",
        },
        "format": {"type": "string", "enum": list(FORMATS), "default": "json"},
        "explain": {
            "type": "boolean", "default": False,
            "description": "answer what would be read of each view and what would be computed, instead of asking",
        },
    },
}  # fmt: skip
ANSWER: dict[str, Any] = {
    "type": "object",
    "required": ["columns", "rows", "cut", "position", "views", "version"],
    "properties": {
        "columns": {
            "type": "array",
            "items": {"type": "object", "properties": {"name": {"type": "string"}, "type": {"type": "string"}}},
        },
        "rows": {"type": "array", "items": ROW},
        "cut": {"type": "boolean", "description": "there are more rows than the limit, or than fit into an answer"},
        "position": {
            **POSITION, "type": ["object", "null"],
            "description": "the one position at which all views were; null if they were at different ones",
        },
        "views": {"type": "object", "additionalProperties": POSITION, "description": "each view at its position"},
        "version": {"type": "string", "description": "say it as after to wait for the next answer"},
        "unchanged": {"type": "boolean", "description": "true: nothing has changed after that version; no rows"},
        "elapsed_ms": {"type": "integer"},
    },
}  # fmt: skip
EXPLAINED: dict[str, Any] = {
    "type": "object",
    "required": ["reads", "computes"],
    "properties": {
        "reads": {"type": "array", "items": {"type": "string"}, "description": "a line for each reading of a view"},
        "computes": {"type": "string", "description": "the statement that is computed over what was read"},
    },
}
TYPES: dict[str, type | tuple[type, ...]] = {"string": str, "boolean": bool, "integer": int}


class Query(NamedTuple):
    asked: Asked
    format: str
    explain: bool


class Queries:
    """Used on the event loop of the port. Who waits for a view holds no thread."""

    def __init__(self, engine: Engine, bodies: Bodies, stopping: Event) -> None:
        self._engine, self._bodies, self._stopping = engine, bodies, stopping
        self._asking = 0
        self._slots = asyncio.Semaphore(COMPUTING_MAX)

    def routes(self) -> list[BaseRoute]:
        return [Route("/query", self._query, methods=["POST"])]

    async def _query(self, request: Request) -> Response:
        try:
            async with self._bodies.held(request) as body:
                query = await run_in_threadpool(parsed, body)
            if self._asking >= ASKING_MAX:
                raise Invalid("too many ask at once; try again", status=429, name="TooMany")
            self._asking += 1
            try:
                return await self._answer(query, request.scope.get(SEES, sees_all))
            finally:
                self._asking -= 1
        except Unread as refusal:
            return failed(refusal.status, str(refusal), refusal.headers)
        except (HeadwaterError, Invalid) as error:
            return answer_to_error(error)

    async def _answer(self, query: Query, sees: Sees) -> Response:
        if query.explain:
            async with self._slots:
                computes, reads = await run_in_threadpool(self._engine.explain, query.asked.sql, sees)
            return Response(json_bytes({"reads": reads, "computes": computes}), media_type=FORMATS["json"])
        async with self._slots:
            prepared = await run_in_threadpool(self._engine.prepare, query.asked, sees)
        while True:
            async with self._slots:
                response = await run_in_threadpool(self._attempt, query, prepared)
            if response is not None:
                return response
            await pause(self._stopping)
            if query.asked.after:
                await asyncio.sleep(FOLLOW_SECONDS)

    def _attempt(self, query: Query, prepared: Prepared) -> Response | None:
        """Encodes here as well: while a large answer is encoded, the loop answers others."""
        answer = self._engine.attempt(prepared)
        if answer is not None:
            return encoded(answer, query.format)
        if not self._engine.late(prepared):
            return None
        self._engine.give_up(prepared)
        return Response(json_bytes({"unchanged": True, "version": query.asked.after}), media_type=FORMATS["json"])

    def document(self) -> dict[str, Any]:
        """The path, in the words of the OpenAPI document."""
        content = {FORMATS["json"]: {"schema": {"anyOf": [ANSWER, EXPLAINED]}},
                   **{FORMATS[one]: {"schema": {"type": "string"}} for one in ("csv", "ndjson")}}  # fmt: skip
        failures = {str(status): failure(status) for status in (400, 401, 403, 408, 409, 412, 413, 422, 429, 503)}
        operation = {
            "operationId": "query",
            "summary": "Ask views with SQL: one SELECT, computed at one moment of each store",
            "tags": ["views"],
            "requestBody": {"required": True, "content": {"application/json": {"schema": BODY}}},
            "responses": {"200": {"description": "as asked", "content": content}, **failures},
        }
        return {"/query": {"post": operation}}


def parsed(body: bytes) -> Query:
    """Invalid names the property, the value, and what it may be."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        raise Invalid('the body is no JSON; post {"sql": "SELECT ..."}') from None
    if not isinstance(said, dict):
        raise Invalid('the body must be an object: post {"sql": "SELECT ..."}')
    properties: Mapping[str, Mapping[str, Any]] = BODY["properties"]
    for name in said:
        if name not in properties:
            raise Invalid(f"there is no property {name[:80]!r} here; there are: {', '.join(sorted(properties))}")
    if said.get("sql") is None:
        raise Invalid('sql is missing; post {"sql": "SELECT ..."}')
    found = {name: _value(name, said.get(name, schema.get("default")), schema) for name, schema in properties.items()}
    at_least: Offsets | None = next_offsets(found["at_least"]) if found["at_least"] else None
    asked = Asked(
        sql=found["sql"], at_least=at_least, one_position=found["one_position"], after=found["after"] or "",
        rows_max=found["limit"], seconds=found["timeout_ms"] / 1000,
    )  # fmt: skip
    return Query(asked, found["format"], found["explain"])


def _value(name: str, value: Any, schema: Mapping[str, Any]) -> Any:
    if value is None:
        return schema.get("default")
    if not isinstance(value, TYPES[schema["type"]]) or (isinstance(value, bool) and schema["type"] != "boolean"):
        raise Invalid(f"{name} is {str(value)[:80]!r}; it must be of the type {schema['type']}")
    if isinstance(value, int) and not isinstance(value, bool) and not schema["minimum"] <= value <= schema["maximum"]:
        raise Invalid(f"{name} is {value}; say a whole number from {schema['minimum']} to {schema['maximum']}")
    if isinstance(value, str) and not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        raise Invalid(f"{name} has {len(value)} characters; {schema.get('minLength', 0)} to {schema['maxLength']} fit")
    if "enum" in schema and value not in schema["enum"]:
        raise Invalid(f"{name} is {str(value)[:80]!r}; say one of {', '.join(schema['enum'])}")
    return value


def encoded(answer: Answer, format: str) -> Response:
    position = None if answer.position is None else position_json(answer.position)
    if format == "json":
        said = {
            "columns": [{"name": column.name, "type": type_name(column.type)} for column in answer.columns],
            "rows": rows_of(answer.table),
            "cut": answer.cut,
            "position": position,
            "views": {name: position_json(one) for name, one in answer.positions.items()},
            "version": answer.version,
            "elapsed_ms": answer.elapsed_ms,
        }
        return Response(json_bytes(said), media_type=FORMATS["json"])
    headers = {"headwater-cut": json.dumps(answer.cut), "headwater-position": json.dumps(position)}
    write = csv_bytes if format == "csv" else ndjson_bytes
    return Response(write(answer.table), headers=headers, media_type=FORMATS[format])
