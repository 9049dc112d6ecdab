"""Projections are flows: what an app declares to read the events of one kind of aggregate. Pure.

The value of an event says what a flow needs beside its fields: `event_of` (the aggregate's class), `event_key` and
`event_type`. A field that only some events have is null in the others.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Protocol, Union, get_args, get_origin, get_type_hints

from headwater.errors import UsageError
from headwater.events.aggregate import OF_EVENT, SETTLING, Definition

SPARK: Mapping[Any, str] = {
    str: "string", bool: "boolean", int: "bigint", float: "double", Decimal: "decimal(38,9)", datetime: "timestamp",
    date: "date",
}  # fmt: skip


class Declared(Protocol):
    """A stream that an app declared."""

    def where(self, condition: str) -> Any: ...


class Declares(Protocol):
    """An app of flows (hw.App)."""

    def stream(self, topic: str, schema: str = "") -> Declared: ...


def stream_of(app: Declares, topic: str, definition: Definition) -> Any:
    """The events of all aggregates of a class, as a stream that the app declares."""
    return app.stream(topic, schema_of(definition)).where(f"event_of = '{definition.name}'")


def schema_of(definition: Definition) -> str:
    """Spark's DDL for the fields of all events of an aggregate. UsageError where two events disagree about one."""
    found = dict.fromkeys(OF_EVENT, "string")
    kinds = [kind for kind, _ in definition.by_event.values()]
    for kind in [*kinds, *SETTLING.values()]:
        for name, hint in _fields(kind).items():
            if found.setdefault(name, spark_type(hint)) != spark_type(hint):
                raise UsageError(
                    f"{definition.name}: events have a field {name} of the types {found[name]} and {spark_type(hint)}; "
                    "declare a stream for some of them with app.stream"
                )
    return ", ".join(f"`{name}` {type}" for name, type in found.items())


def spark_type(hint: Any) -> str:
    """What an annotation is in Spark's DDL; text for what has no type of its own there.

    >>> spark_type(list[int | None])
    'array<bigint>'
    """
    origin, arguments = get_origin(hint), [one for one in get_args(hint) if one is not NoneType]
    if origin in (Union, UnionType) and len(arguments) == 1:
        return spark_type(arguments[0])
    if origin in (list, tuple, set, frozenset):
        return f"array<{spark_type(arguments[0])}>"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"map<string,{spark_type(arguments[1])}>"
    if hint in SPARK:
        return SPARK[hint]
    if isinstance(hint, type) and not issubclass(hint, Enum) and (inner := _fields(hint)):
        return f"struct<{','.join(f'`{name}`:{spark_type(one)}' for name, one in inner.items())}>"
    return "string"


def _fields(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind) if is_dataclass(kind) or hasattr(kind, "model_fields") else {}
    names = [one.name for one in fields(kind)] if is_dataclass(kind) else getattr(kind, "model_fields", {})
    return {name: hints[name] for name in names}
