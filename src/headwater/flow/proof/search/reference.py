"""What stored queries say of documents, worked out one by one in plain Python: the reference of the index of queries.

It shares the parser of queries and the rules of an analyzer for one word; how texts are cut, queries are evaluated and
hits are scored and shown is done again here, in the slowest and plainest way.
"""

import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from typing import Any, NamedTuple

from headwater.flow.operators.search import tree
from headwater.flow.operators.search.fields import Fields, bounds_of
from headwater.flow.operators.search.syntax import parsed
from headwater.flow.operators.search.tree import MUST, MUST_NOT, SHOULD, QueryMistake

IDF = math.log(4 / 3)
AROUND, FRAGMENTS_MAX = 6, 3
IDEOGRAPH = re.compile("[\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3041-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
                       "\U00020000-\U0003ffff]")  # fmt: skip
KATAKANA = re.compile("[\u3031-\u3035\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9d]")
IN_WORDS, IN_NUMBERS = (
    "\u00b7\u0387\u055f\u05f4\u2027\ufe13",
    ",;\u037e\u0589\u060c\u060d\u066c\u07f8\u2044\ufe10\ufe14\ufe50\ufe54\uff0c\uff1b",
)
IN_BOTH = "'.\u2018\u2019\u2024\ufe52\uff07\uff0e"


class Token(NamedTuple):
    compared: str
    place: int
    begin: int
    end: int


class Hit(NamedTuple):
    score: float
    leaves: tuple[tuple[str, float, float], ...]
    """Clauses that hold, how often, and their scores."""
    marked: frozenset[tuple[str, int]] = frozenset()
    """Fields and places of words that are asked for."""


MISS = None
ALWAYS = Hit(1.0, ())


def tokens(text: str) -> Iterator[tuple[str, int, int]]:
    """Words by a small grammar over the kinds of letters: one letter for each character."""
    kinds = "".join(map(_kind, text))
    # L letters, D digits, C connectors, K Katakana, I ideographs, m marks; w, n, b: between words, numbers, or both.
    at = 0
    while at < len(kinds):
        if kinds[at] not in "LDCKI":
            at += 1
            continue
        end = _end(kinds, at)
        if re.search("[LDKI]", kinds[at:end]):
            yield text[at:end], at, end
        at = end


def _end(kinds: str, at: int) -> int:
    last, end = kinds[at], at + 1
    while end < len(kinds):
        following = kinds[end]
        if following == "m":
            end += 1
            continue
        if last == "I":
            return end
        if last + following in ("LL", "LD", "DL", "DD", "KK") or (following in "LDKC" and "C" in (last, following)):
            last, end = following, end + 1
            continue
        bridge = re.match(r"[wb]m*(L)" if last == "L" else r"[nb]m*(D)" if last == "D" else "(?!)", kinds[end:])
        if bridge is None:
            return end
        end += bridge.end()
    return end


def _kind(one: str) -> str:
    for kind, signs in (("w", IN_WORDS), ("n", IN_NUMBERS), ("b", IN_BOTH)):
        if one in signs:
            return kind
    category = unicodedata.category(one)
    if one == "\u200b":
        return "o"
    if category in ("Nd", "Pc"):
        return {"Nd": "D", "Pc": "C"}[category]
    if category[0] == "M" or category == "Cf":
        return "m"
    if category[0] == "L" or category == "Nl":
        return "I" if IDEOGRAPH.match(one) else "K" if KATAKANA.match(one) else "L"
    return "o"


@dataclass(frozen=True)
class Document:
    fields: Fields
    values: Mapping[str, Any]

    @cached_property
    def words(self) -> dict[str, list[Token]]:
        return {name: self._words(name, self.values.get(name)) for name in self.fields.worded}

    def _words(self, name: str, text: str | None) -> list[Token]:
        analyzer = self.fields.analyzer_of(name)
        if text is None:
            return []
        if analyzer is None:
            return [Token(text, 0, 0, len(text))]
        cut = [(analyzer.compared(word), begin, end) for word, begin, end in tokens(text)]
        return [Token(word, place, begin, end) for place, (word, begin, end) in enumerate(cut) if word is not None]

    def weight(self, name: str) -> float:
        """Of how long a field is, of which eight bits are kept."""
        length = len(self.words[name])
        kept = length
        if length >= 24:
            above = length - 24
            bits = above.bit_length()
            kept = 24 + (above if bits <= 4 else above >> (bits - 4) << (bits - 4))
        return 1.2 * (1 - 0.75 + 0.75 * kept / max(length, 1))


def hit_of(text: str | None, document: Document, default: str = "OR") -> Hit | None:
    """None if the query does not match, or cannot be run."""
    if text is None:
        return MISS
    try:
        query = parsed(text, default)
        if not _says_anything(query, document.fields):
            return MISS
        return _evaluated(query, document)
    except QueryMistake:
        return MISS


def _says_anything(query: tree.Query, fields: Fields) -> bool:
    """Is anything left without stop words? All of the query is looked at: QueryMistake wherever there is one."""
    match query:
        case tree.Group(clauses=clauses):
            return sum(_says_anything(one.query, fields) for one in clauses) > 0
        case tree.Boosted(query=inner):
            return _says_anything(inner, fields)
        case tree.Leaf():
            empty = Document(fields, {})
            return sum(_leaf(query, name, empty) is not ... for name in _names(query, fields)) > 0
    raise AssertionError(query)


def _names(leaf: tree.Leaf, fields: Fields) -> Sequence[str]:
    if leaf.field is None:
        if isinstance(leaf, tree.Range | tree.Near):
            raise QueryMistake("of no field")
        return fields.texts
    fields.check(leaf.field)
    return [leaf.field]


def _evaluated(query: tree.Query, document: Document) -> Hit | None:
    match query:
        case tree.Boosted(query=inner, by=by):
            found = _evaluated(inner, document)
            return found and found._replace(score=found.score * by)
        case tree.Everything():
            return ALWAYS
        case tree.Group():
            return _group(query, document)
        case tree.Leaf():
            leaves = [_leaf(query, name, document) for name in _names(query, document.fields)]
            hits = [one for one in leaves if isinstance(one, Hit)]
            return _summed(hits) if hits else MISS
    raise AssertionError(query)


def _group(group: tree.Group, document: Document) -> Hit | None:
    clauses = [one for one in group.clauses if _says_anything(one.query, document.fields)]
    found = [(one.occurs, _evaluated(one.query, document)) for one in clauses]
    if all(occurs == MUST_NOT for occurs, _ in found):
        found.append((MUST, ALWAYS))
    has_must, has_some = (any(occurs == kind for occurs, _ in found) for kind in (MUST, SHOULD))
    wanted = max(group.minimum, 1 if has_some and not has_must else 0)
    if any((hit is None) == (occurs == MUST) for occurs, hit in found if occurs != SHOULD):
        return MISS
    hits = [hit for occurs, hit in found if hit is not None]
    return MISS if sum(occurs == SHOULD and hit is not None for occurs, hit in found) < wanted else _summed(hits)


def _summed(hits: Sequence[Hit]) -> Hit:
    return Hit(sum(one.score for one in hits), tuple(leaf for one in hits for leaf in one.leaves))


def _leaf(leaf: tree.Leaf, name: str, document: Document) -> Any:
    """A hit or None; ... if it says nothing without stop words."""
    fields = document.fields
    if isinstance(leaf, tree.Everything):
        return ALWAYS
    if name in (one.name for one in fields.points):
        return _near(leaf, name, document)
    if name not in fields.worded:
        return _within(leaf, name, document)
    analyzer = fields.analyzer_of(name)
    plain = analyzer.plain if analyzer is not None else str
    words = document.words[name]
    if isinstance(leaf, tree.Word | tree.Quoted):
        cut = [leaf.text] if analyzer is None else [word for word, *_ in tokens(leaf.text)]
        compared = [word if analyzer is None else analyzer.compared(word) for word in cut]
        wanted = [(word, place) for place, word in enumerate(compared) if word is not None]
        return _phrase(leaf, name, wanted, document) if wanted else ...
    if isinstance(leaf, tree.Wildcard):
        pattern = re.compile(_as_regex(plain(leaf.pattern)), re.DOTALL)
        found = [one for one in words if pattern.fullmatch(one.compared)]
    elif isinstance(leaf, tree.Fuzzy):
        found = [one for one in words if distance(plain(leaf.text), one.compared) <= leaf.edits]
    elif isinstance(leaf, tree.Range):
        found = [one for one in words if _between(leaf, one.compared, plain)]
    else:
        raise QueryMistake("no place")
    if not found:
        return MISS
    said = ((f"{name}:{_in_words(leaf)}", float(len(found)), 1.0),)
    return Hit(1.0, said, frozenset((name, one.place) for one in found))


def _in_words(leaf: tree.Leaf) -> str:
    match leaf:
        case tree.Wildcard(pattern=pattern):
            return pattern
        case tree.Fuzzy(text=text, edits=edits):
            return f"{text}~{edits}"
        case tree.Near():
            return f"near({leaf.latitude:g}, {leaf.longitude:g}, {leaf.metres:g} m)"
        case tree.Range():
            low, high = ("*" if one is None else one for one in (leaf.low, leaf.high))
            return f"{'[' if leaf.with_low else '{'}{low} TO {high}{']' if leaf.with_high else '}'}"
    raise AssertionError(leaf)


def _met(name: str, leaf: tree.Leaf) -> Hit:
    return Hit(1.0, ((f"{name}:{_in_words(leaf)}", 1.0, 1.0),))


def _phrase(
    leaf: tree.Word | tree.Quoted, name: str, wanted: Sequence[tuple[str, int]], document: Document
) -> Hit | None:
    """Every way to give the words of the phrase words of the document is tried."""
    slop = leaf.slop if isinstance(leaf, tree.Quoted) else 0
    places = {word: [one.place for one in document.words[name] if one.compared == word] for word, _ in wanted}
    widths: dict[int, int] = {}
    for chosen in product(*(places[word] for word, _ in wanted)):
        if any(one == other and at >= behind for (one, at), (other, behind) in _pairs_of(wanted, chosen)):
            continue  # a word stands for one of the phrase, and those that are the same keep their order
        apart = [at - place for at, (_, place) in zip(chosen, wanted, strict=True)]
        width = max(apart) - min(apart)
        if width <= slop:
            widths[min(apart)] = min(width, widths.get(min(apart), width))
    if not widths:
        return MISS
    frequency = sum(1 / (1 + width) for width in widths.values())
    score = len(wanted) * IDF * frequency / (frequency + document.weight(name))
    said = leaf.text if len(wanted) == 1 else f'"{leaf.text}"' + (f"~{slop}" if slop else "")
    return Hit(score, ((f"{name}:{said}", frequency, score),))


def _pairs_of(
    wanted: Sequence[tuple[str, int]], chosen: Sequence[int]
) -> Iterator[tuple[tuple[str, int], tuple[str, int]]]:
    return combinations(list(zip((word for word, _ in wanted), chosen, strict=True)), 2)


def _within(leaf: tree.Leaf, name: str, document: Document) -> Hit | None:
    kind = document.fields.columns.field(name).type
    if isinstance(leaf, tree.Word | tree.Quoted):
        leaf = tree.Range(name, leaf.text, leaf.text)
    if not isinstance(leaf, tree.Range):
        raise QueryMistake("values and ranges only")
    import pyarrow as pa

    from headwater.flow.operators.search.fields import as_numbers

    low, high = bounds_of(kind, leaf.low, leaf.high, with_low=leaf.with_low, with_high=leaf.with_high)
    numbers, known = as_numbers(pa.array([document.values.get(name)], kind))
    return _met(name, leaf) if known[0] and low <= numbers[0] <= high else MISS


def _near(leaf: tree.Leaf, name: str, document: Document) -> Hit | None:
    if not isinstance(leaf, tree.Near):
        raise QueryMistake("a place")
    point = next(one for one in document.fields.points if one.name == name)
    given = [document.values.get(one) for one in (point.latitude, point.longitude)]
    degrees = [math.nan if one is None else float(one) for one in given]
    if any(map(math.isnan, degrees)):
        return MISS
    here, there = ((math.radians(up), math.radians(along))
                   for up, along in ((leaf.latitude, leaf.longitude), degrees))  # fmt: skip
    half = math.sin((there[0] - here[0]) / 2) ** 2
    half += math.cos(here[0]) * math.cos(there[0]) * math.sin((there[1] - here[1]) / 2) ** 2
    metres = 2 * 6_371_008.7714 * math.asin(min(1.0, math.sqrt(half)))
    return _met(name, leaf) if metres <= leaf.metres else MISS


def _as_regex(pattern: str) -> str:
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    return "".join({"*": ".*", "?": "."}.get(one, re.escape(one.removeprefix("\\") or one)) for one in parts)


def _between(leaf: tree.Range, word: str, plain: Any) -> bool:
    above = leaf.low is None or word.encode() > plain(leaf.low).encode() or (leaf.with_low and word == plain(leaf.low))
    below = (
        leaf.high is None or word.encode() < plain(leaf.high).encode() or (leaf.with_high and word == plain(leaf.high))
    )
    return above and below


def distance(one: str, other: str) -> int:
    """Letters put in, left out, replaced, or swapped with their neighbour."""
    rows = [list(range(len(other) + 1))]
    for at, letter in enumerate(one, 1):
        row = [at]
        for place, wanted in enumerate(other, 1):
            cost = min(rows[-1][place] + 1, row[-1] + 1, rows[-1][place - 1] + (letter != wanted))
            if at > 1 and place > 1 and letter == other[place - 2] and one[at - 2] == wanted:
                cost = min(cost, rows[-2][place - 2] + 1)
            row.append(cost)
        rows.append(row)
    return rows[-1][-1]


def _asked(query: tree.Query, document: Document) -> set[tuple[str, int]]:
    """The words of a document that a query asks for, whatever becomes of its clauses."""
    match query:
        case tree.Boosted(query=inner):
            return _asked(inner, document)
        case tree.Group(clauses=clauses):
            return {one for each in clauses if each.occurs != MUST_NOT for one in _asked(each.query, document)}
        case tree.Leaf():
            return {one for name in _names(query, document.fields) for one in _asked_of(query, name, document)}
    raise AssertionError(query)


def _asked_of(leaf: tree.Leaf, name: str, document: Document) -> set[tuple[str, int]]:
    analyzer = document.fields.analyzer_of(name)
    if isinstance(leaf, tree.Word | tree.Quoted) and name in document.words:
        cut = [leaf.text] if analyzer is None else [analyzer.compared(word) for word, *_ in tokens(leaf.text)]
        return {(name, one.place) for one in document.words[name] if one.compared in cut}
    found = None if isinstance(leaf, tree.Everything) else _leaf(leaf, name, document)
    return set(found.marked) if isinstance(found, Hit) else set()


def fragments(text: str, document: Document, default: str = "OR") -> list[str]:
    """What is shown of a hit of a query."""
    made: list[str] = []
    shown = _asked(parsed(text, default), document)
    for name in document.fields.texts:
        words, floor, at = document.words[name], 0, 0
        while at < len(words) and len(made) < FRAGMENTS_MAX:
            if (name, words[at].place) not in shown:
                at += 1
                continue
            begin, latest, end = max(floor, at - AROUND), at, at + 1
            while end < len(words) and end - latest <= AROUND and end - begin < 6 * AROUND:
                latest = end if (name, words[end].place) in shown else latest
                end += 1
            made.append(_marked(str(document.values[name]), words[begin:end], name, shown))
            floor = at = end
    return made


def _marked(text: str, words: Sequence[Token], name: str, shown: set[tuple[str, int]]) -> str:
    said, at = "", words[0].begin
    for one in words:
        if (name, one.place) in shown:
            said += f"{text[at : one.begin]}<em>{text[one.begin : one.end]}</em>"
            at = one.end
    return said + text[at : words[-1].end]
