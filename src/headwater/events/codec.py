"""Dataclasses and pydantic models to JSON and back, by their annotations. Pure.

What comes back is what the annotation says and nothing else: no name in the data chooses a class or runs code.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from headwater.errors import UsageError

TEXTS: Mapping[type, Any] = {
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
    time: time.fromisoformat,
    Decimal: Decimal,
    UUID: UUID,
}
"""Types that JSON has as text, and what reads it."""


def to_json(value: object) -> bytes:
    """
    >>> to_json({"price": Decimal("1.50")})
    b'{"price":"1.50"}'
    """
    return json.dumps(plain(value), separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def plain(value: object) -> Any:
    """The value as JSON has it. UsageError for a type that could not be read back."""
    if value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, Enum)):
        return value
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, tuple(TEXTS)):
        return str(value)
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {_key(key): plain(one) for key, one in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((plain(one) for one in value), key=str)
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    raise UsageError(f"a {type(value).__name__} cannot be kept in an event or a state; use fields that JSON can have")


def _key(key: object) -> str:
    said = plain(key)
    return said if isinstance(said, str) else json.dumps(said)


def of_type(kind: Any, data: Any) -> Any:
    """The value that JSON data means where the annotation is `kind`. UsageError if the data does not fit.

    >>> of_type(list[Decimal], ["1.50"])
    [Decimal('1.50')]
    """
    try:
        return _of_type(kind, data)
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError) as error:
        name = getattr(kind, "__name__", str(kind))
        raise UsageError(f"{json.dumps(data)[:200]} is no {name}: {error}; an upcaster can change old shapes") from None


def _of_type(kind: Any, data: Any) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any or kind is object:
        return data
    if origin in (Union, UnionType):
        return _of_union(arguments, data)
    if origin is Literal:
        if data not in arguments:
            raise ValueError(f"it is none of {arguments}")
        return data
    if origin is not None:
        return _of_generic(origin, arguments, data)
    if kind is None or kind is NoneType:
        if data is not None:
            raise ValueError("it should be null")
        return None
    if kind in TEXTS:
        return TEXTS[kind](data)
    if kind is timedelta:
        return timedelta(seconds=data)
    if kind is bytes:
        return b64decode(data, validate=True)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(data)
    if hasattr(kind, "model_validate"):
        return kind.model_validate(data)
    if is_dataclass(kind):
        return _of_dataclass(kind, data)
    if kind is float and type(data) is int:
        return float(data)
    if kind in (list, tuple, set, frozenset) and isinstance(data, list):
        return kind(data)
    if isinstance(kind, type) and type(data) is not kind:
        raise TypeError(f"it is a {type(data).__name__}")
    return data


def _of_union(arguments: tuple[Any, ...], data: Any) -> Any:
    if data is None and NoneType in arguments:
        return None
    failures = []
    for kind in arguments:
        if kind is not NoneType:
            try:
                return _of_type(kind, data)
            except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError) as error:
                failures.append(str(error))
    raise ValueError("; ".join(failures) or "it should be null")


def _of_generic(origin: Any, arguments: tuple[Any, ...], data: Any) -> Any:
    if origin is tuple and Ellipsis not in arguments:
        return tuple(_of_type(kind, one) for kind, one in zip(arguments, data, strict=True))
    if issubclass(origin, Mapping):
        key, value = arguments
        return {_of_key(key, name): _of_type(value, one) for name, one in data.items()}
    if not isinstance(data, list):
        raise TypeError(f"it is a {type(data).__name__}")
    made = [_of_type(arguments[0], one) for one in data]
    return made if origin in (list,) else origin(made) if isinstance(origin, type) and origin in (
        tuple, set, frozenset,
    ) else made  # fmt: skip


def _of_key(kind: Any, name: str) -> Any:
    return _of_type(kind, name) if kind is str or kind in TEXTS else _of_type(kind, json.loads(name))


def _of_dataclass(kind: Any, data: Any) -> Any:
    hints = get_type_hints(kind)
    given = {}
    for field in fields(kind):
        if field.name in data:
            given[field.name] = _of_type(hints[field.name], data[field.name])
        elif field.default is MISSING and field.default_factory is MISSING:
            raise KeyError(f"{field.name} is missing")
    if unknown := set(data) - {field.name for field in fields(kind)}:
        raise ValueError(f"it has {', '.join(sorted(unknown))}, which {kind.__name__} has not")
    return kind(**given)
