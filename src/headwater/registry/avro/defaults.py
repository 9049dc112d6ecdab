"""Is a default, which is JSON, a value of its field's type?"""

from headwater.registry.avro.types import NO_DEFAULT, Array, Enum, Fixed, Map, Primitive, Record, Type, Union

RANGES = {"int": range(-(2**31), 2**31), "long": range(-(2**63), 2**63)}
NOT_FINITE = ("NaN", "Infinity", "-Infinity")


Checked = dict[tuple[int, int], bool]
"""Results by the ids of a value and a type, which the caller keeps alive."""


def fits(value: object, kind: Type, checked: Checked | None = None) -> bool:
    """Checks each pair once: with recursive unions of records the number of paths is exponential.

    >>> fits(3, Primitive(name="int")), fits(None, Primitive(name="int"))
    (True, False)
    """
    known = {} if checked is None else checked
    pair = id(value), id(kind)
    if pair not in known:
        known[pair] = _fits(value, kind, known)
    return known[pair]


def _fits(value: object, kind: Type, checked: Checked) -> bool:
    match kind:
        case Primitive():
            return _fits_primitive(value, kind.name)
        case Union():
            # The specification once said the first branch, and now any; readers exist for both.
            return any(fits(value, branch, checked) for branch in kind.branches)
        case Array():
            return isinstance(value, list) and all(fits(one, kind.items, checked) for one in value)
        case Map():
            return isinstance(value, dict) and all(fits(one, kind.values, checked) for one in value.values())
        case Enum():
            return value in kind.symbols
        case Fixed():
            return _is_bytes(value) and len(str(value)) == kind.size
        case Record():
            return isinstance(value, dict) and all(
                fits(value[field.name], field.type, checked) if field.name in value else field.default is not NO_DEFAULT
                for field in kind.fields
            )
    return False


def _fits_primitive(value: object, name: str) -> bool:
    match name:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            return _is_number(value, int) and value in RANGES[name]
        case "float" | "double":
            return _is_number(value, int, float) or value in NOT_FINITE
        case "string":
            return isinstance(value, str)
    return _is_bytes(value)


def _is_number(value: object, *kinds: type) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def _is_bytes(value: object) -> bool:
    """Bytes in JSON are a text whose characters stand for one byte each."""
    return isinstance(value, str) and all(ord(letter) < 256 for letter in value)
