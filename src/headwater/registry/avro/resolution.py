"""Can a reader with one Avro schema read everything that was written with another? Avro's rules of resolution.

Types are compared without logical types, as Avro does, but for decimals: the bytes of a number with another scale would
be read as another number, and the specification lets them match only if scale and precision do.
"""

from collections.abc import Mapping

from headwater.registry.avro.types import (
    NO_DEFAULT,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Primitive,
    Record,
    Type,
    Union,
    label,
)
from headwater.registry.budget import Budget

PROMOTIONS = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "string": {"bytes"},
    "bytes": {"string"},
}
"""What a reader of a type may find written instead."""


COMPARISON_STEPS = 5


def unreadable(reader: Type, writer: Type, budget: Budget) -> list[str]:
    """Returns the reasons for which it cannot be read, one sentence for each path; none if all can be read."""
    return _Resolution(budget).compare(reader, writer, "")


class _Resolution:
    """Pairs of types that were looked at, with what was found.

    A pair that is being looked at counts as fitting, because a record may contain itself. So what is found unfit is
    unfit whatever else comes out, and what is found to fit does so if the pairs around it do.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._seen: dict[tuple[int, int], list[str]] = {}
        """In the order in which they were met."""

    def compare(self, reader: Type, writer: Type, path: str) -> list[str]:
        self._budget.spend(COMPARISON_STEPS, characters=len(path))
        pair = (id(reader), id(writer))
        if pair in self._seen:
            return self._seen[pair]
        self._seen[pair] = []
        found = self._compare(reader, writer, path)
        self._seen[pair] = found
        return found

    def _compare(self, reader: Type, writer: Type, path: str) -> list[str]:
        if isinstance(writer, Union):
            return [reason for branch in writer.branches for reason in self.compare(reader, branch, path)]
        if isinstance(reader, Union):
            return self._union(reader, writer, path)
        match reader, writer:
            case (Primitive(), Primitive()):
                return _primitives(reader, writer, path)
            case (Array(), Array()):
                return self.compare(reader.items, writer.items, f"{path}[]")
            case (Map(), Map()):
                return self.compare(reader.values, writer.values, f"{path}{{}}")
            case (Named(), Named()) if type(reader) is type(writer):
                return _names(reader, writer, path) or self._named(reader, writer, path)
        return [f"{_at(path)}a {label(writer)} cannot be read as a {label(reader)}"]

    def _union(self, reader: Union, writer: Type, path: str) -> list[str]:
        for branch in reader.branches:
            before = len(self._seen)
            if not self.compare(branch, writer, path):
                return []
            self._forget_fitting(before)
        branches = ", ".join(map(label, reader.branches)) or "nothing"
        return [f"{_at(path)}a {label(writer)} fits no branch of the reader's union ({branches})"]

    def _forget_fitting(self, before: int) -> None:
        """What was found to fit in a branch that does not fit may have counted on it."""
        unfit = []
        while len(self._seen) > before:
            pair, reasons = self._seen.popitem()
            if reasons:
                unfit.append((pair, reasons))
        self._budget.spend(len(unfit))
        self._seen.update(reversed(unfit))

    def _named(self, reader: Named, writer: Named, path: str) -> list[str]:
        if isinstance(reader, Fixed) and isinstance(writer, Fixed):
            if reader.size != writer.size:
                return [f"{_at(path)}{reader.name} has {reader.size} bytes for the reader and {writer.size} as written"]
            return _decimals(reader, writer, path)
        if isinstance(reader, Enum) and isinstance(writer, Enum):
            known = set(reader.symbols)
            self._budget.spend(len(reader.symbols) + len(writer.symbols))
            missing = [symbol for symbol in writer.symbols if symbol not in known]
            if missing and reader.default is NO_DEFAULT:
                return [f"{_at(path)}the reader's enum {reader.name} lacks {', '.join(missing)}, and has no default"]
            return []
        assert isinstance(reader, Record)
        assert isinstance(writer, Record)
        self._budget.spend(len(reader.fields) + len(writer.fields))
        written = {one.name: one for one in writer.fields}
        return [reason for field in reader.fields for reason in self._field(field, written, path)]

    def _field(self, field: Field, written: Mapping[str, Field], path: str) -> list[str]:
        here = f"{path}.{field.name}" if path else field.name
        name = next((name for name in (field.name, *field.aliases) if name in written), None)
        if name is not None:
            return self.compare(field.type, written[name].type, here)
        if field.default is NO_DEFAULT:
            return [f"{_at(here)}the field is not written, and the reader has no default for it"]
        return []


def _names(reader: Named, writer: Named, path: str) -> list[str]:
    if reader.short_name == writer.short_name or writer.name in reader.aliases:
        return []
    return [f"{_at(path)}{label(writer)} cannot be read as {label(reader)}: the names differ"]


def _primitives(reader: Primitive, writer: Primitive, path: str) -> list[str]:
    if reader.name != writer.name and writer.name not in PROMOTIONS.get(reader.name, ()):
        return [f"{_at(path)}a {writer.name} cannot be read as a {reader.name}"]
    return _decimals(reader, writer, path)


def _decimals(reader: Type, writer: Type, path: str) -> list[str]:
    if reader.decimal and writer.decimal and reader.decimal != writer.decimal:
        return [f"{_at(path)}decimal{writer.decimal} cannot be read as decimal{reader.decimal}"]
    return []


def _at(path: str) -> str:
    return f"{path}: " if path else ""
