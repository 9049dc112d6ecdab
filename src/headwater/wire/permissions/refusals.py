"""Answers to what is not allowed, in the form of the API they belong to. Pure.

A response says the same names as its request: of a topic that is refused, its name and the numbers of its partitions.
So a refusal is made from the request and the schema of the response.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from kio.index import load_response_schema
from kio.schema.errors import ErrorCode

from headwater.wire.protocol.entities import default_of, shape_of
from headwater.wire.protocol.fields import Fields

RENAMED: Mapping[tuple[str, str], str] = {
    ("CreateAclsResponse", "results"): "creations",
    ("DeleteAclsResponse", "filter_results"): "filters",
    ("OffsetFetchResponse", "groups"): "groups",
}
"""Arrays that a response calls otherwise than its request."""

UNKNOWN = {"low_watermark": -1, "committed_offset": -1, "base_offset": -1, "offset": -1, "timestamp": -1,
           "start_offset": -1}  # fmt: skip
"""Numbers that say "none" with something else than 0, where the schema has no default."""

NUMBERS = {"partition_indexes": "partition_index"}


def refusal(source: Any, api_key: int, version: int, code: ErrorCode, message: str | None = None) -> Fields:
    """A whole response that refuses all that a request asks."""
    return mirrored(source, load_response_schema(api_key, version), code, message)


def element_type(api_key: int, version: int, array: str) -> Any:
    """The type of the elements of an array of a response."""
    response_type: Any = load_response_schema(api_key, version)
    (field,) = [one for one in dataclasses.fields(response_type) if one.name == array]
    return shape_of(field.type).inner


def mirrored(source: Any, entity_type: Any, code: ErrorCode, message: str | None = None) -> Fields:
    """An entity with the names and numbers of `source`, and the error wherever the type has room for one."""
    values = {
        field.name: _value(field, source, entity_type, code, message) for field in dataclasses.fields(entity_type)
    }
    return Fields(**values)


def _value(field: Any, source: Any, entity_type: Any, code: ErrorCode, message: str | None) -> Any:
    kind, shape = field.metadata.get("kafka_type"), shape_of(field.type)
    if kind == "error_code":
        return code
    if field.name == "error_message":
        return message
    if shape.array and kind is None:
        known = getattr(source, RENAMED.get((entity_type.__name__, field.name), field.name), None)
        if known is None and field.name == "partitions" and hasattr(source, "partition_indexes"):
            known = [Fields(partition_index=number) for number in source.partition_indexes]
        if field.name == "partitions":  # some requests only list their numbers
            known = [Fields(partition_index=one) if isinstance(one, int) else one for one in known or ()]
        return tuple(mirrored(one, shape.inner, code, message) for one in known or ())
    if kind is not None and hasattr(source, field.name) and not shape.array:
        return getattr(source, field.name)
    return UNKNOWN.get(field.name, default_of(field))
