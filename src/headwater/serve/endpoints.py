"""The endpoints of the HTTP API, as a table: routes, parameter checks and the OpenAPI document come from it.

One declaration says what a parameter may be, so that the OpenAPI document and the node agree.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwater.errors import HeadwaterError
from headwater.serve.answers import Asked, Invalid, answer_to_error, json_response

Schema = dict[str, Any]

WHOLE = re.compile(r"-?[0-9]{1,18}")
TRUTH = {"true": True, "false": False}
TEXT_MAX = 500
VALUES_MAX = 20


@dataclass(frozen=True)
class Parameter:
    name: str
    about: str
    schema: Schema
    """JSON Schema: an integer, a boolean, a string, or an array of strings (which is said by repeating the name)."""

    in_path: bool = False


def text(name: str, about: str, *, in_path: bool = False, longest: int = TEXT_MAX, **more: Any) -> Parameter:
    # A backslash in a path is made a slash by some clients, and a name of dots is resolved by all of them.
    return Parameter(name, about, {"type": "string", "minLength": 1, "maxLength": longest, **more}, in_path)


def whole(name: str, about: str, *, least: int, most: int, default: int | None = None) -> Parameter:
    schema: Schema = {"type": "integer", "minimum": least, "maximum": most}
    return Parameter(name, about, schema if default is None else {**schema, "default": default})


def truth(name: str, about: str, *, default: bool) -> Parameter:
    return Parameter(name, about, {"type": "boolean", "default": default})


def several(name: str, about: str) -> Parameter:
    one = {"type": "string", "maxLength": TEXT_MAX}
    return Parameter(name, about, {"type": "array", "items": one, "maxItems": VALUES_MAX})


Answer = Callable[[Asked], object]
Wait = Callable[[Asked], Awaitable[None]]


@dataclass(frozen=True)
class Endpoint:
    path: str
    summary: str
    answer: Answer
    """Called on a thread. What it returns becomes JSON there, unless it is a Response."""

    returns: Schema
    parameters: tuple[Parameter, ...] = ()
    failures: tuple[int, ...] = ()
    wait: Wait | None = None
    """Awaited first: waiting for a position must hold no thread."""

    media_type: str = "application/json"
    tag: str = ""
    operation: str = field(default="")


def routes_of_endpoints(endpoints: Sequence[Endpoint]) -> list[Route]:
    return [Route(endpoint.path, _asgi(endpoint), methods=["GET"]) for endpoint in endpoints]


def _asgi(endpoint: Endpoint) -> Any:
    async def answer(request: Request) -> Response:
        try:
            asked = parse(endpoint.parameters, request.path_params, request.query_params.multi_items())
            if endpoint.wait is not None:
                await endpoint.wait(asked)
            return await run_in_threadpool(_response, endpoint, asked)
        except (HeadwaterError, Invalid) as error:
            return answer_to_error(error)

    return answer


def _response(endpoint: Endpoint, asked: Asked) -> Response:
    found = endpoint.answer(asked)
    return found if isinstance(found, Response) else json_response(found)


def parse(parameters: Sequence[Parameter], path: Mapping[str, str], query: Sequence[tuple[str, str]]) -> Asked:
    """Returns the checked parameters of a request. Invalid names the parameter, the value, and what it may be."""
    given: dict[str, list[str]] = {name: [value] for name, value in path.items()}
    known = {parameter.name for parameter in parameters if not parameter.in_path}
    for name, value in query:
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise Invalid(f"there is no parameter {name[:80]!r} here; there are: {listed}")
        given.setdefault(name, []).append(value)
    return {parameter.name: _value(parameter, given.get(parameter.name)) for parameter in parameters}


def _value(parameter: Parameter, said: list[str] | None) -> Any:
    name, schema = parameter.name, parameter.schema
    if schema["type"] == "array":
        if len(said or ()) > schema["maxItems"]:
            raise Invalid(f"{name} was said {len(said or ())} times; at most {schema['maxItems']} times is possible")
        return [_text(name, one, schema["items"]) for one in said or ()]
    if said is None:
        return schema.get("default")
    if len(said) > 1:
        raise Invalid(f"{name} was said {len(said)} times; say it once")
    match schema["type"]:
        case "integer":
            return _whole(name, said[0], schema)
        case "boolean":
            if said[0] not in TRUTH:
                raise Invalid(f"{name} is {said[0][:80]!r}; say true or false")
            return TRUTH[said[0]]
    return _text(name, said[0], schema)


def _whole(name: str, said: str, schema: Schema) -> int:
    if not WHOLE.fullmatch(said) or not schema["minimum"] <= int(said) <= schema["maximum"]:
        raise Invalid(f"{name} is {said[:80]!r}; say a whole number from {schema['minimum']} to {schema['maximum']}")
    return int(said)


def _text(name: str, said: str, schema: Schema) -> str:
    if not schema.get("minLength", 0) <= len(said) <= schema["maxLength"]:
        raise Invalid(f"{name} has {len(said)} characters; {schema.get('minLength', 0)} to {schema['maxLength']} fit")
    if "\0" in said:
        raise Invalid(f"{name} has a NUL character in it, which no name or value here has")
    if "pattern" in schema and not re.search(schema["pattern"], said):
        raise Invalid(f"{name} is {said[:80]!r}; it must look like {schema['pattern']}")
    if "enum" in schema and said not in schema["enum"]:
        raise Invalid(f"{name} is {said[:80]!r}; say one of {', '.join(schema['enum'])}")
    return said
