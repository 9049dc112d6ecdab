"""The OpenAPI document, made from the table of endpoints. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from headwater.serve.answers import ERROR_SCHEMA
from headwater.serve.endpoints import Endpoint, Parameter

REASONS = {
    400: "a parameter is not what it may be",
    404: "there is no such thing",
    412: "the view did not reach the position in time",
    416: "the topic has no such offset, or no longer",
    422: "the question makes no sense here",
    429: "too many ask at once",
    503: "it cannot be answered just now",
}
ALWAYS = (400, 429, 503)


def document(endpoints: Sequence[Endpoint], *, version: str, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """`more` are paths that others answer, as they stand in the document."""
    paths: dict[str, Any] = {endpoint.path: {"get": operation_of(endpoint)} for endpoint in endpoints}
    for path, operations in (more or {}).items():
        paths.setdefault(path, {}).update(operations)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "headwater",
            "version": version,
            "summary": "Topics, views, groups, flows and captures of a node, to read and to follow",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": {"Error": ERROR_SCHEMA},
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": 'a token of "headwater token add"; needed as soon as there is one, or a public name',
                }
            },
        },
        "security": [{}, {"token": []}],
    }


def operation_of(endpoint: Endpoint) -> dict[str, Any]:
    failures = sorted({*endpoint.failures, *ALWAYS})
    said: dict[str, Any] = {
        "operationId": endpoint.operation,
        "summary": endpoint.summary,
        "tags": [endpoint.tag],
        "responses": {
            "200": {"description": "as asked", "content": {endpoint.media_type: {"schema": endpoint.returns}}},
            **{str(status): failure(status) for status in failures},
        },
    }
    if endpoint.parameters:
        said["parameters"] = [_parameter(one) for one in endpoint.parameters]
    return said


def failure(status: int) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {"description": REASONS.get(status, "it failed"), "content": content}


def _parameter(one: Parameter) -> dict[str, Any]:
    said = {
        "name": one.name,
        "in": "path" if one.in_path else "query",
        "required": one.in_path,
        "description": one.about,
        "schema": one.schema,
    }
    if one.schema["type"] == "array":
        said |= {"style": "form", "explode": True}
    return said
