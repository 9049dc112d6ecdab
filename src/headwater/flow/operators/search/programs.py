"""From the tree of a stored query to numbers for compiled code, and the words that it cannot match without (pure).

A program is a row of instructions, each with its operands; evaluation leaves whether it holds, and a score.

    TERM t leaf, CONSTANT t leaf     does the document have it; with a score by how often, or with 1
    PHRASE slop n t₁ p₁ … tₙ pₙ leaf  terms and their places
    BETWEEN column low high leaf     a typed column
    NEAR point f leaf                f: where among the floats latitude, longitude and metres are
    ALL
    OPEN, CLOSE occurs end, END wanted   a group: after each of its clauses CLOSE, `end` is where its END is
    BOOST f
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from headwater.flow.operators.search import tree
from headwater.flow.operators.search.fields import Fields, bounds_of
from headwater.flow.operators.search.tree import MUST, MUST_NOT, SHOULD, Group, QueryMistake

TERM, CONSTANT, PHRASE, BETWEEN, NEAR, ALL, OPEN, CLOSE, END, BOOST = range(10)
OCCURS = {MUST: 0, SHOULD: 1, MUST_NOT: 2}
EXACTLY, PREFIX, LIKE, ABOUT, FROM_TO = range(5)
"""Kinds of term: a word; words that begin so; of a wildcard; that differ in a few letters; between two in order."""


class TermKey(NamedTuple):
    """What a term is. All but the first kind stand for every word that fits."""

    field: int
    kind: int
    text: str
    edits: int = 0


class Terms(Protocol):
    """Gives terms their numbers."""

    def number(self, key: TermKey) -> int: ...

    def rarity(self, term: int) -> int:
        """Less for terms that fewer documents have, as far as one can guess."""


@dataclass
class Program:
    code: list[int] = field(default_factory=list)
    floats: list[float] = field(default_factory=list)
    leaves: list[str] = field(default_factory=list)
    """What the clauses say that have a leaf's number; for explanations."""
    shown: list[int] = field(default_factory=list)
    """Terms to be highlighted."""
    keys: tuple[int, ...] = ()
    """Terms of which a document must have `needed` for the query to match; empty if nothing is known."""
    needed: int = 0


class Cover(NamedTuple):
    """A document that matches has `least` of these terms at least."""

    terms: frozenset[int]
    least: int


NOTHING_KNOWN = Cover(frozenset(), 0)
NEEDED_MAX = 2
"""Counting more words than two of a query rules out few documents more, and their lists have to be gone through."""


def program_of(query: tree.Query, fields: Fields, terms: Terms) -> Program:
    """QueryMistake if it asks for what the fields do not have."""
    builder = _Builder(fields, terms)
    cover = builder.add(query, shown=True)
    if cover is None:
        raise QueryMistake("all its words are stop words")
    made = builder.made
    made.keys, made.needed = _fewest(cover, terms)
    return made


def _fewest(cover: Cover, terms: Terms) -> tuple[tuple[int, ...], int]:
    """Of n terms of which k are needed a document that has them has one of any n − k + 1, and two of one more: the
    rarest of them will do."""
    if not cover.least:
        return (), 0
    needed = min(cover.least, NEEDED_MAX)
    rarest = sorted(cover.terms, key=lambda term: (terms.rarity(term), term))
    return tuple(rarest[: len(rarest) - cover.least + needed]), needed


class _Builder:
    def __init__(self, fields: Fields, terms: Terms) -> None:
        self.made, self._fields, self._terms = Program(), fields, terms

    def add(self, query: tree.Query, *, shown: bool) -> Cover | None:
        """The instructions of a query; None if nothing is left of it without stop words."""
        match query:
            case Group():
                return self._group(query, shown=shown)
            case tree.Boosted(inner, by):
                cover = self.add(inner, shown=shown)
                if cover is not None:
                    self.made.code += [BOOST, len(self.made.floats)]
                    self.made.floats.append(by)
                return cover
            case tree.Everything():
                self.made.code.append(ALL)
                return NOTHING_KNOWN
            case tree.Leaf(field=None):
                names = self._fields.texts
                if isinstance(query, tree.Range | tree.Near):
                    raise QueryMistake("a range or a place is wanted of no field; put its name and : before it")
                if len(names) > 1:
                    return self._anywhere(query, names, shown=shown)
                return self._leaf(query, names[0], shown=shown)
            case tree.Leaf(field=str(name)):
                self._fields.check(name)
                return self._leaf(query, name, shown=shown)
        raise AssertionError(query)

    # -- groups --------------------------------------------------------------------------------------------------------

    def _group(self, group: Group, *, shown: bool) -> Cover | None:
        parts = ((one.occurs, lambda one=one: self.add(one.query, shown=shown and one.occurs != MUST_NOT))
                 for one in group.clauses)  # fmt: skip
        return self._grouped(parts, group.minimum)

    def _anywhere(self, leaf: tree.Leaf, names: Sequence[str], *, shown: bool) -> Cover | None:
        return self._grouped(((SHOULD, lambda name=name: self._leaf(leaf, name, shown=shown)) for name in names), 0)

    def _grouped(self, parts: "Iterable[tuple[str, _Adds]]", minimum: int) -> Cover | None:
        code = self.made.code
        begin, closes = len(code), list[int]()
        code.append(OPEN)
        covers: dict[str, list[Cover]] = {MUST: [], SHOULD: [], MUST_NOT: []}
        for occurs, add in parts:
            cover = add()
            if cover is None:
                continue
            covers[occurs].append(cover)
            code += [CLOSE, OCCURS[occurs], 0]
            closes.append(len(code) - 1)
        if not covers[MUST] and not covers[SHOULD]:
            if not covers[MUST_NOT]:
                del code[begin:]
                return None
            code += [ALL, CLOSE, OCCURS[MUST], 0]
            closes.append(len(code) - 1)
        wanted = max(minimum, 1 if covers[SHOULD] and not covers[MUST] else 0)
        for place in closes:
            code[place] = len(code)
        code += [END, wanted]
        return _all_of([*covers[MUST], *([_some_of(covers[SHOULD], wanted)] if wanted else [])])

    # -- leaves --------------------------------------------------------------------------------------------------------

    def _leaf(self, leaf: tree.Leaf, name: str, *, shown: bool) -> Cover | None:
        fields = self._fields
        if name in (one.name for one in fields.points):
            return self._near(leaf, name)
        if name in fields.worded:
            return self._worded(leaf, name, fields.worded.index(name), shown=shown)
        if isinstance(leaf, tree.Word):
            low = high = leaf.text
            leaf = tree.Range(name, low, high)
        elif isinstance(leaf, tree.Quoted):
            leaf = tree.Range(name, leaf.text, leaf.text)
        if not isinstance(leaf, tree.Range):
            raise QueryMistake(f"{name} is no text, and has values and ranges only")
        kind = fields.columns.field(name).type
        bounds = bounds_of(kind, leaf.low, leaf.high, with_low=leaf.with_low, with_high=leaf.with_high)
        said = f"{name}:{_in_brackets(leaf)}"
        self.made.code += [BETWEEN, fields.typed.index(name), *bounds, self._said(said)]
        return NOTHING_KNOWN

    def _worded(self, leaf: tree.Leaf, name: str, number: int, *, shown: bool) -> Cover | None:
        analyzer = self._fields.analyzer_of(name)
        plain = analyzer.plain if analyzer is not None else str
        match leaf:
            case tree.Word(text=text) | tree.Quoted(text=text):
                return self._words(leaf, name, number, text, shown=shown)
            case tree.Wildcard(pattern=pattern):
                key = _wildcard(number, plain(pattern))
                said = f"{name}:{pattern}"
            case tree.Fuzzy(text=text, edits=edits):
                key, said = TermKey(number, ABOUT, plain(text), edits), f"{name}:{text}~{edits}"
            case tree.Range(low=low, high=high):
                ends = ["" if one is None else plain(one) for one in (low, high)]
                flags = (leaf.with_low or low is None) + 2 * leaf.with_high + 4 * (high is None)
                key, said = TermKey(number, FROM_TO, "\0".join(ends), flags), f"{name}:{_in_brackets(leaf)}"
            case _:
                raise QueryMistake(f"{name} is no place")
        term = self._terms.number(key)
        self.made.code += [CONSTANT, term, self._said(said)]
        self.made.shown += [term] if shown else []
        return Cover(frozenset({term}), 1)

    def _words(self, leaf: tree.Leaf, name: str, number: int, text: str, *, shown: bool) -> Cover | None:
        """A word of several parts, such as wi-fi, is a phrase."""
        places = analysed(self._fields, name, text)
        if not places:
            return None
        terms = [self._terms.number(TermKey(number, EXACTLY, word)) for word, _ in places]
        self.made.shown += terms if shown else []
        if len(terms) == 1:
            self.made.code += [TERM, terms[0], self._said(f"{name}:{text}")]
            return Cover(frozenset(terms), 1)
        slop = leaf.slop if isinstance(leaf, tree.Quoted) else 0
        pairs = [one for term, (_, place) in zip(terms, places, strict=True) for one in (term, place)]
        said = f'{name}:"{text}"' + (f"~{slop}" if slop else "")
        self.made.code += [PHRASE, slop, len(terms), *pairs, self._said(said)]
        return Cover(frozenset(terms), len(set(terms)))

    def _near(self, leaf: tree.Leaf, name: str) -> Cover:
        if not isinstance(leaf, tree.Near):
            raise QueryMistake(f"{name} is a place; ask for {name}:near(latitude, longitude, 5 km)")
        number = [one.name for one in self._fields.points].index(name)
        said = f"{name}:near({leaf.latitude:g}, {leaf.longitude:g}, {leaf.metres:g} m)"
        self.made.code += [NEAR, number, len(self.made.floats), self._said(said)]
        self.made.floats += [leaf.latitude, leaf.longitude, leaf.metres]
        return NOTHING_KNOWN

    def _said(self, text: str) -> int:
        self.made.leaves.append(text)
        return len(self.made.leaves) - 1


class _Adds(Protocol):
    def __call__(self) -> Cover | None: ...


def analysed(fields: Fields, name: str, text: str) -> list[tuple[str, int]]:
    """The words of a query's text as they are compared, and their places."""
    import pyarrow as pa

    from headwater.flow.operators.search.words import cut, found_words

    analyzer = fields.analyzer_of(name)
    if analyzer is None:
        return [(text, 0)]
    if text.isalnum() and text.isascii():
        words = [text]
    else:
        column = pa.array([text], pa.string())
        words = cut(column, found_words(column)).to_pylist()
    compared = [(analyzer.compared(word), place) for place, word in enumerate(words)]
    return [(word, place) for word, place in compared if word is not None]


def _wildcard(number: int, pattern: str) -> TermKey:
    """
    >>> _wildcard(0, "storm*").kind == PREFIX, _wildcard(0, "st?rm*").kind == LIKE
    (True, True)
    """
    bare = pattern[:-1]
    if pattern.endswith("*") and not any(one in bare for one in "*?\\"):
        return TermKey(number, PREFIX, bare)
    return TermKey(number, LIKE, pattern)


def _in_brackets(leaf: tree.Range) -> str:
    low, high = ("*" if one is None else one for one in (leaf.low, leaf.high))
    return f"{'[' if leaf.with_low else '{'}{low} TO {high}{']' if leaf.with_high else '}'}"


def _all_of(covers: Sequence[Cover]) -> Cover:
    """All clauses hold. Counts add up only where no word counts for two of them: `a AND (a OR b)` needs one."""
    if not covers:
        return NOTHING_KNOWN
    if _apart(covers):
        return Cover(frozenset().union(*(one.terms for one in covers)), sum(one.least for one in covers))
    return max(covers, key=lambda one: (one.least, -len(one.terms)))


def _some_of(covers: Sequence[Cover], wanted: int) -> Cover:
    """At least so many of the clauses hold, and it may be those that need the fewest words."""
    counts = sorted(one.least for one in covers)[:wanted]
    count = sum(counts) if _apart(covers) else counts[-1]
    if not count:
        return NOTHING_KNOWN
    return Cover(frozenset().union(*(one.terms for one in covers)), count)


def _apart(covers: Sequence[Cover]) -> bool:
    return len(frozenset().union(*(one.terms for one in covers))) == sum(len(one.terms) for one in covers)
