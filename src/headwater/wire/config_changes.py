"""Changes of a topic's configuration, as two APIs ask for them. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headwater.errors import InvalidSetting
from headwater.log.topic_settings import DEFINITIONS

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


class Operation(NamedTuple):
    name: str
    operation: int
    value: str | None


Changes = dict[str, str | None]
"""New values by name; None goes back to the default."""


def replacing(old: Mapping[str, str], new: Mapping[str, str | None]) -> Changes:
    """The changes that leave exactly `new`: whatever is not named goes back to its default."""
    return {**dict.fromkeys(old), **new}


def changing(current: Mapping[str, str], operations: Sequence[Operation]) -> Changes:
    """The changes that `operations` make, given the values in force now. InvalidSetting if they make no sense."""
    changes: Changes = {}
    for name, operation, value in operations:
        if name in changes:
            raise InvalidSetting(name, value, "it is named twice in one request")
        if operation == DELETE:
            changes[name] = None
        elif value is None:
            raise InvalidSetting(name, value, "it needs a value")
        elif operation == SET:
            changes[name] = value
        else:
            changes[name] = _changed_list(name, current.get(name, ""), operation, value)
    return changes


def _changed_list(name: str, current: str, operation: int, value: str) -> str:
    definition = DEFINITIONS.get(name)
    if definition is None:
        raise InvalidSetting(name, value, "no topic setting has this name")
    if definition.kind != "list" or operation not in (APPEND, SUBTRACT):
        raise InvalidSetting(name, value, "only lists can be appended to and subtracted from")
    old, given = _items(current), _items(value)
    if operation == APPEND:
        return ",".join([*old, *[item for item in given if item not in old]])
    return ",".join([item for item in old if item not in given])


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]
