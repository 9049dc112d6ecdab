"""Confluent's REST interface to the registry, without HTTP: a request in, a status and JSON out.

    GET POST       /subjects  /subjects/S  /subjects/S/versions  /subjects/S/versions/N[/schema|/referencedby]
    GET            /schemas  /schemas/types  /schemas/ids/I[/schema|/subjects|/versions]
    GET PUT DELETE /config  /config/S              GET  /mode  /mode/S
    POST           /compatibility/subjects/S/versions[/N]
    DELETE         /subjects/S  /subjects/S/versions/N        (permanent=true: for good)

An error is {"error_code": 40401, "message": "..."}, where the first three digits are the status.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from headwater import errors
from headwater.errors import HeadwaterError, InvalidCompatibility, InvalidSchemaText, InvalidVersion, UnknownSchema
from headwater.registry.kinds import MODULES
from headwater.registry.registry import Registry
from headwater.registry.words import AVRO, LATEST, Compatibility, Reference, SchemaText, Version

logger = logging.getLogger("headwater.registry")

ROOTS = ("subjects", "schemas", "config", "mode", "compatibility")
"""The first parts of the paths that are answered here."""

CODES: dict[type[HeadwaterError], int] = {
    errors.UnknownSubject: 40401,
    errors.UnknownVersion: 40402,
    errors.UnknownSchema: 40403,
    errors.AlreadyDeleted: 40404,
    errors.NotYetDeleted: 40405,
    errors.NoOwnCompatibility: 40408,
    errors.InvalidSchemaText: 42201,
    errors.InvalidVersion: 42202,
    errors.InvalidCompatibility: 42203,
    errors.SchemaReferenced: 42206,
    errors.IncompatibleSchema: 409,
    errors.RegistryUnavailable: 50003,
    errors.UnavailableError: 50003,
}
OF_VERSIONS = {40404: 40406, 40405: 40407}
"""Codes that Confluent numbers differently where a version, not a subject, is meant."""

NOT_FOUND, NOT_ALLOWED, BAD_REQUEST, FAILED = 404, 405, 400, 50001
VERSION_MAX = 2**31 - 1

Answer = tuple[int, Any]


class Call(NamedTuple):
    """A request: path parameters, query string, body."""

    registry: Registry
    names: Sequence[str]
    query: Mapping[str, str]
    body: Mapping[str, Any]

    def said(self, name: str) -> bool:
        return self.query.get(name, "").lower() == "true"

    @property
    def subject(self) -> str:
        return self.names[0]

    @property
    def number(self) -> int:
        return version_number(self.names[1])


class Rest:
    """Answers requests; safe to call from many threads."""

    roots = ROOTS

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def answer(self, method: str, path: Sequence[str], query: Mapping[str, str], body: bytes) -> Answer:
        """`path` in its decoded parts. What goes wrong is an answer as well, never an exception."""
        try:
            handler, names = find(method, path)
            return 200, handler(Call(self._registry, names, query, _object(body)))
        except RequestError as refusal:
            return refusal.status, {"error_code": refusal.status, "message": str(refusal)}
        except HeadwaterError as error:
            return failure(error)
        except Exception:
            logger.exception("a request to the registry failed in an unforeseen way")
            return 500, {"error_code": FAILED, "message": "the registry failed; its log says why"}


class RequestError(Exception):
    """No such path, no such method on it, or a body that is not JSON."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def failure(error: HeadwaterError) -> Answer:
    """The status and the body that say what an error says."""
    code = next((CODES[kind] for kind in type(error).__mro__ if kind in CODES), FAILED)
    if getattr(error, "version", None) is not None:
        code = OF_VERSIONS.get(code, code)
    status = code if code < 1000 else code // 100
    return status, {"error_code": code, "message": str(error)}


def version_number(said: str) -> int:
    if said in ("latest", "-1"):
        return LATEST
    if not said.isdecimal() or not said.isascii() or not 1 <= int(said[:12]) <= VERSION_MAX:
        raise InvalidVersion(said)
    return int(said)


def _object(body: bytes) -> Mapping[str, Any]:
    if not body:
        return {}
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        raise RequestError(BAD_REQUEST, "the body is not JSON") from None
    if not isinstance(said, dict):
        raise RequestError(BAD_REQUEST, "the body is not a JSON object")
    return said


def schema_in(body: Mapping[str, Any]) -> SchemaText:
    text, kind = body.get("schema"), body.get("schemaType") or AVRO
    if not isinstance(text, str) or not text.strip():
        raise InvalidSchemaText("the body has no schema", 'Send {"schema": "..."}, the schema as a text.')
    if not isinstance(kind, str):
        raise InvalidSchemaText("schemaType is not a text")
    for name in ("ruleSet", "metadata"):
        if body.get(name):
            raise InvalidSchemaText(f"{name} is not supported", "Register the schema without it.")
    references = body.get("references") or []
    if not isinstance(references, list):
        raise InvalidSchemaText("references are a list")
    return SchemaText(text, kind, tuple(map(_reference, references)))


def _reference(said: Any) -> Reference:
    match said:
        case {"name": str(name), "subject": str(subject), "version": int(version)}:
            return Reference(name, subject, version)
    raise InvalidSchemaText("a reference has a name, a subject and a version")


def _described(call: Call, version: Version) -> dict[str, Any]:
    head = {"subject": version.subject, "id": version.id, "version": version.number}
    deleted = {"deleted": True} if version.deleted else {}
    return head | _content(call, version) | deleted


def _content(call: Call, version: Version) -> dict[str, Any]:
    schema = version.schema
    said: dict[str, Any] = {} if schema.kind == AVRO else {"schemaType": schema.kind}
    if schema.references:
        said["references"] = [reference._asdict() for reference in schema.references]
    return {**said, "schema": _text(call, schema)}


def _text(call: Call, schema: SchemaText) -> str:
    if call.query.get("format") != "serialized":
        return schema.text
    serialized: str = getattr(call.registry.parsed(schema).tree, "serialized", schema.text)
    return serialized


def _page(call: Call, listed: list[Any]) -> list[Any]:
    offset, limit = call.query.get("offset", "0"), call.query.get("limit", "-1")
    start = int(offset) if offset.isdecimal() else 0
    return listed[start : start + int(limit)] if limit.isdecimal() else listed[start:]


# -- subjects --------------------------------------------------------------------------------------------------------


def list_subjects(call: Call) -> list[str]:
    prefix = call.query.get("subjectPrefix", "").removeprefix(":*:")
    found = call.registry.subjects(deleted=call.said("deleted") or call.said("deletedOnly"))
    if call.said("deletedOnly"):
        seen = set(call.registry.subjects())
        found = [subject for subject in found if subject not in seen]
    return _page(call, [subject for subject in found if subject.startswith(prefix)])


def list_versions(call: Call) -> list[int]:
    found = call.registry.versions(call.subject, deleted=call.said("deleted"))
    return _page(call, [version.number for version in found])


def register(call: Call) -> dict[str, int]:
    return {"id": call.registry.register(call.subject, schema_in(call.body)).id}


def look_up(call: Call) -> dict[str, Any]:
    found = call.registry.find(call.subject, schema_in(call.body), deleted=call.said("deleted"))
    return _described(call, found)


def get_version(call: Call) -> dict[str, Any]:
    return _described(call, call.registry.version(call.subject, call.number, deleted=call.said("deleted")))


def get_version_schema(call: Call) -> "PlainText":
    version = call.registry.version(call.subject, call.number, deleted=call.said("deleted"))
    return PlainText(_text(call, version.schema))


def get_referring(call: Call) -> list[int]:
    return call.registry.referring_to(call.subject, call.number)


def delete_subject(call: Call) -> list[int]:
    return call.registry.delete_subject(call.subject, permanent=call.said("permanent"))


def delete_version(call: Call) -> int:
    return call.registry.delete_version(call.subject, call.number, permanent=call.said("permanent"))


# -- schemas ---------------------------------------------------------------------------------------------------------


class PlainText(str):
    """A schema as it is, not inside JSON."""


def list_schemas(call: Call) -> list[dict[str, Any]]:
    prefix, deleted = call.query.get("subjectPrefix", "").removeprefix(":*:"), call.said("deleted")
    found: list[Version] = []
    for subject in call.registry.subjects(deleted=deleted):
        if subject.startswith(prefix):
            versions = call.registry.versions(subject, deleted=deleted)
            found += versions[-1:] if call.said("latestOnly") else versions
    return [_described(call, version) for version in _page(call, found)]


def list_kinds(call: Call) -> list[str]:
    return list(MODULES)


def _with_id(call: Call) -> list[Version]:
    number = call.names[0]
    if not number.isdecimal() or not number.isascii() or len(number) > 10:
        raise UnknownSchema(f"{number[:40]!r} is not an id of a schema", "It is a number from 1 on.")
    found = call.registry.with_id(int(number))
    wanted = call.query.get("subject")
    # Clients say from which subject they expect it; a schema is the same under every one that has it.
    own = [version for version in found if version.subject == wanted]
    return own or found


def get_schema(call: Call) -> dict[str, Any]:
    return _content(call, _with_id(call)[0])


def get_schema_text(call: Call) -> PlainText:
    return PlainText(_text(call, _with_id(call)[0].schema))


def get_subjects_of(call: Call) -> list[str]:
    return sorted({version.subject for version in _seen(call)})


def get_versions_of(call: Call) -> list[dict[str, Any]]:
    return [{"subject": version.subject, "version": version.number} for version in _seen(call)]


def _seen(call: Call) -> list[Version]:
    return [version for version in _with_id(call) if call.said("deleted") or not version.deleted]


# -- levels ----------------------------------------------------------------------------------------------------------


def get_level(call: Call) -> dict[str, str]:
    subject = call.names[0] if call.names else None
    level = call.registry.level(subject) if call.said("defaultToGlobal") else call.registry.own_level(subject)
    return {"compatibilityLevel": level.value}


def set_level(call: Call) -> dict[str, str]:
    unknown = {name for name, value in call.body.items() if value is not None} - {"compatibility"}
    if unknown:
        raise InvalidCompatibility(f"{sorted(unknown)[0]} cannot be set", "Only compatibility can.")
    level = Compatibility.called(call.body.get("compatibility"))
    call.registry.set_level(call.names[0] if call.names else None, level)
    return {"compatibility": level.value}


def delete_level(call: Call) -> dict[str, str]:
    before = call.registry.set_level(call.names[0] if call.names else None, None)
    return {"compatibilityLevel": before.value}


def get_mode(call: Call) -> dict[str, str]:
    return {"mode": "READWRITE"}


def check(call: Call) -> dict[str, Any]:
    number = call.number if len(call.names) > 1 else None
    verdict = call.registry.check(call.subject, schema_in(call.body), number)
    said: dict[str, Any] = {"is_compatible": verdict.compatible}
    return said | {"messages": verdict.reasons} if call.said("verbose") else said


# -- the table -------------------------------------------------------------------------------------------------------


class Route(NamedTuple):
    method: str
    path: str
    """A part in braces is a name."""
    handler: Callable[[Call], Any]


ROUTES = (
    Route("GET", "subjects", list_subjects),
    Route("POST", "subjects/{}", look_up),
    Route("DELETE", "subjects/{}", delete_subject),
    Route("GET", "subjects/{}/versions", list_versions),
    Route("POST", "subjects/{}/versions", register),
    Route("GET", "subjects/{}/versions/{}", get_version),
    Route("DELETE", "subjects/{}/versions/{}", delete_version),
    Route("GET", "subjects/{}/versions/{}/schema", get_version_schema),
    Route("GET", "subjects/{}/versions/{}/referencedby", get_referring),
    Route("GET", "schemas", list_schemas),
    Route("GET", "schemas/types", list_kinds),
    Route("GET", "schemas/ids/{}", get_schema),
    Route("GET", "schemas/ids/{}/schema", get_schema_text),
    Route("GET", "schemas/ids/{}/subjects", get_subjects_of),
    Route("GET", "schemas/ids/{}/versions", get_versions_of),
    Route("GET", "config", get_level),
    Route("PUT", "config", set_level),
    Route("DELETE", "config", delete_level),
    Route("GET", "config/{}", get_level),
    Route("PUT", "config/{}", set_level),
    Route("DELETE", "config/{}", delete_level),
    Route("GET", "mode", get_mode),
    Route("GET", "mode/{}", get_mode),
    Route("POST", "compatibility/subjects/{}/versions", check),
    Route("POST", "compatibility/subjects/{}/versions/{}", check),
)


def find(method: str, path: Sequence[str]) -> tuple[Callable[[Call], Any], list[str]]:
    """The handler of a request, and the names in its path. RequestError if there is none."""
    known = False
    for route in ROUTES:
        pattern = route.path.split("/")
        if len(pattern) != len(path) or any(one not in ("{}", part) for one, part in zip(pattern, path, strict=True)):
            continue
        known = True
        if route.method == method:
            return route.handler, [part for one, part in zip(pattern, path, strict=True) if one == "{}"]
    if known:
        raise RequestError(NOT_ALLOWED, f"{method} cannot be done here")
    raise RequestError(NOT_FOUND, "there is nothing here")
