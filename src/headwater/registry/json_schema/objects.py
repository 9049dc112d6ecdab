"""Objects: is every object that the writer admits admitted by the reader?

What an object may hold under a name is said by `properties`, by every of `patternProperties` that the name matches, and
if none of these speaks of it, by `additionalProperties`. Without that word, anything: such a schema is open, and a
property that a reader adds to it may be there already, as anything.
"""

from typing import TYPE_CHECKING, Any

from headwater.registry.json_schema.bounds import counts

if TYPE_CHECKING:
    from headwater.registry.json_schema.containment import Comparison, Side


def objects(comparison: "Comparison", reader: "Side", writer: "Side", path: str) -> list[str]:
    mine, yours = reader.words, writer.words
    found = counts(mine, yours, "Properties", path) + _required(reader, writer, path)
    names = sorted({*mine.get("properties", {}), *yours.get("properties", {})})
    for name in names:
        found += _property(comparison, reader, writer, name, path)
    found += _patterns(comparison, reader, writer, path)
    if "propertyNames" in mine and not comparison.admits(
        reader.part(mine["propertyNames"]), writer.part(yours.get("propertyNames", True))
    ):
        found.append(f"{path}: propertyNames is narrower")
    return found


def _required(reader: "Side", writer: "Side", path: str) -> list[str]:
    mine, yours = _names(reader.words.get("required")), _names(writer.words.get("required"))
    found = [f"{path}/{name}: the reader requires it, and it may be missing" for name in sorted(mine - yours)]
    said = writer.words.get("dependentRequired", {})
    for name, needed in reader.words.get("dependentRequired", {}).items():
        missing = sorted(_names(needed) - _names(said.get(name)) - yours)
        found += [f"{path}/{one}: the reader requires it beside {name}" for one in missing]
    return found


def _names(said: Any) -> set[str]:
    return set(said) if isinstance(said, list) else set()


def _property(comparison: "Comparison", reader: "Side", writer: "Side", name: str, path: str) -> list[str]:
    written = what_holds(comparison, writer, name)
    if any(part.admits_nothing for part in written):
        return []
    found = []
    for wanted in what_holds(comparison, reader, name):
        # All of the writer's hold at once: one that is within the reader's is enough.
        reasons = [comparison.compare(wanted, part, f"{path}/{name}") for part in written]
        if all(reasons):
            found += sorted(reasons, key=len)[0]
    return found


def what_holds(comparison: "Comparison", side: "Side", name: str) -> "list[Side]":
    """Every schema that the value under a name must fit."""
    words = side.words
    found = [side.part(words["properties"][name])] if name in words.get("properties", {}) else []
    patterns = words.get("patternProperties", {})
    found += [side.part(one) for text, one in patterns.items() if comparison.matches(text, name)]
    return found or [side.part(words.get("additionalProperties", True))]


def _patterns(comparison: "Comparison", reader: "Side", writer: "Side", path: str) -> list[str]:
    """Names that neither lists: those of patterns, and all others."""
    mine, yours = reader.words.get("patternProperties", {}), writer.words.get("patternProperties", {})
    rest = writer.part(writer.words.get("additionalProperties", True))
    others = reader.part(reader.words.get("additionalProperties", True))
    every = {**mine, **yours}
    found = [
        f"{path}/{one[:40]}: the pattern cannot be compared: {why}"
        for one in every
        if (why := comparison.pattern(one).why)
    ]
    for pattern, one in mine.items():
        own = reader.part(one)
        if pattern in yours:
            found += comparison.compare(own, writer.part(yours[pattern]), f"{path}/{pattern}")
        elif not (rest.admits_nothing and not yours) and not own.admits_all:
            found.append(f"{path}/{pattern}: the pattern is new")
    for pattern, one in yours.items():
        if pattern not in mine:
            found += comparison.compare(others, writer.part(one), f"{path}/{pattern}")
            if mine:
                found.append(f"{path}/{pattern}: patterns may overlap in another way")
    if not rest.admits_nothing:
        found += comparison.compare(others, rest, f"{path}/*")
    return found
