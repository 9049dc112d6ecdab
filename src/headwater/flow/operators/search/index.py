"""The index of stored queries: every different text of a query once, as a program, and under the terms it waits for.

It only grows: which of its queries are alive is said when documents are matched, so that one index serves several
versions of the stored queries. What is in it follows from their texts alone, so it is a cache, and never state.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from headwater.flow.operators.search.fields import Fields
from headwater.flow.operators.search.lexicon import Lexicon
from headwater.flow.operators.search.lists import GrowingLists
from headwater.flow.operators.search.matching import Matches, Queries, Reasons, matches, reasons
from headwater.flow.operators.search.pages import Pages, pages_of
from headwater.flow.operators.search.programs import Program, program_of
from headwater.flow.operators.search.syntax import parsed
from headwater.flow.operators.search.tree import QueryMistake
from headwater.flow.state.runs.equality import Integers, Mask

NO_QUERY = -1


class Column:
    """Numbers that grow: doubled when they are full."""

    def __init__(self, kind: type) -> None:
        self._values: Any = np.zeros(1024, kind)
        self.count = 0

    def add(self, values: Sequence[float]) -> None:
        end = self.count + len(values)
        if end > len(self._values):
            larger = np.zeros(max(end, 2 * len(self._values)), self._values.dtype)
            larger[: self.count] = self._values[: self.count]
            self._values = larger
        self._values[self.count : end] = values
        self.count = end

    @property
    def values(self) -> Any:
        return self._values[: self.count]


class Matched(NamedTuple):
    pages: Pages
    found: Matches
    verified: int
    """Pairs that were looked at."""


class QueryIndex:
    def __init__(self, fields: Fields, default: str = "OR") -> None:
        self.fields, self._default = fields, default
        self._lexicon = Lexicon(len(fields.worded))
        self._slots: dict[str, int] = {}
        self.mistakes: dict[int, str] = {}
        """What is wrong with queries that cannot be run."""
        self._waiting = GrowingLists()
        self._always: list[int] = []
        self._needed, self._code, self._code_ends = Column(np.int64), Column(np.int64), Column(np.int64)
        self._floats, self._float_ends = Column(np.float64), Column(np.int64)
        self._shown, self._shown_ends = Column(np.int64), Column(np.int64)
        self._leaves, self._leaf_ends = list[str](), Column(np.int64)
        for ends in (self._code_ends, self._float_ends, self._shown_ends, self._leaf_ends):
            ends.add([0])

    @property
    def size(self) -> int:
        return len(self._slots)

    def slots(self, texts: pa.Array) -> Integers:
        """The number of each query in the index, to which new ones are added; NO_QUERY for null."""
        known = self._slots
        made = np.empty(len(texts), np.int64)
        for place, text in enumerate(texts.to_pylist()):
            if text is None:
                made[place] = NO_QUERY
                continue
            slot = known.get(text)
            made[place] = self._add(text) if slot is None else slot
        return made

    def _add(self, text: str) -> int:
        slot = self._slots[text] = len(self._slots)
        try:
            program = program_of(parsed(text, self._default), self.fields, self._lexicon)
        except QueryMistake as mistake:
            self.mistakes[slot], program = str(mistake), Program()
        self._code.add(program.code)
        self._floats.add(program.floats)
        self._shown.add(sorted(set(program.shown)))
        self._leaves += program.leaves
        counts = self._code.count, self._floats.count, self._shown.count, len(self._leaves)
        ends = self._code_ends, self._float_ends, self._shown_ends, self._leaf_ends
        for column, count in zip(ends, counts, strict=True):
            column.add([count])
        self._needed.add([program.needed])
        for term in program.keys:
            self._waiting.add(term, slot)
        if not program.keys and slot not in self.mistakes:
            self._always.append(slot)
        return slot

    @property
    def always(self) -> Integers:
        """Queries that are run for every document: nothing is known that it must have."""
        return np.array(self._always, np.int64)

    def alive(self, slots: Integers) -> Mask:
        """Which queries of the index are among some."""
        made = np.zeros(self.size, np.bool_)
        made[slots[slots != NO_QUERY]] = True
        made[list(self.mistakes)] = False
        return made

    def _queries(self, alive: Mask) -> Queries:
        return Queries(
            self._code.values, self._code_ends.values, self._floats.values, self._float_ends.values,
            self._needed.values, alive, self._waiting.lists(), self.always,
        )  # fmt: skip

    def match(self, documents: pa.RecordBatch, alive: Mask) -> Matched:
        """All pairs of a document and a query that match, in the order of documents, then of queries."""
        pages = pages_of(documents, self.fields, self._lexicon)
        owners, slots, scores, verified = matches(pages, self._queries(alive), max(self._lexicon.size, 1))
        order = np.lexsort([slots, owners])
        return Matched(pages, Matches(owners[order], slots[order], scores[order]), int(verified))

    def reasons(self, matched: Matched, alive: Mask) -> Reasons:
        """Of all pairs that match, the clauses that hold; clauses have the numbers of `leaf_texts`."""
        found, most = matched.found, int(np.diff(self._leaf_ends.values).max(initial=0))
        pairs, leaves, frequencies, scores = reasons(
            matched.pages, self._queries(alive), found.documents, found.queries, max(self._lexicon.size, 1), most
        )
        return Reasons(pairs, leaves + self._leaf_ends.values[found.queries[pairs]], frequencies, scores)

    @property
    def leaf_texts(self) -> list[str]:
        return self._leaves

    @property
    def shown(self) -> tuple[Integers, Integers]:
        """Where the terms to highlight of each query begin, and they themselves."""
        return self._shown_ends.values, self._shown.values
