"""Arrays: is every array that the writer admits admitted by the reader?"""

import json
from typing import TYPE_CHECKING

from headwater.registry.json_schema.bounds import counts

if TYPE_CHECKING:
    from headwater.registry.json_schema.containment import Comparison, Side

AS_THEY_ARE = ("contains", "minContains", "maxContains")


def arrays(comparison: "Comparison", reader: "Side", writer: "Side", path: str) -> list[str]:
    mine, yours = reader.words, writer.words
    found = counts(mine, yours, "Items", path)
    if mine.get("uniqueItems") and not yours.get("uniqueItems"):
        found.append(f"{path}: the reader wants every element once")
    if "contains" in mine and any(_text(mine.get(word)) != _text(yours.get(word)) for word in AS_THEY_ARE):
        found.append(f"{path}: contains is new or another")
    first, rest = elements(reader)
    theirs, others = elements(writer)
    for index in range(max(len(first), len(theirs))):
        # An element that an array can never have needs no schema that fits.
        if index < yours.get("maxItems", index + 1):
            wanted = first[index] if index < len(first) else rest
            written = theirs[index] if index < len(theirs) else others
            found += comparison.compare(wanted, written, f"{path}[{index}]")
    if not others.admits_nothing:
        found += comparison.compare(rest, others, f"{path}[]")
    return found


def elements(side: "Side") -> "tuple[list[Side], Side]":
    """Schemas of the first elements, one each, and of all others."""
    words = side.words
    items = words.get("items", True)
    if isinstance(items, list):  # as older drafts write it
        return [side.part(one) for one in items], side.part(words.get("additionalItems", True))
    return [side.part(one) for one in words.get("prefixItems", [])], side.part(items)


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)
