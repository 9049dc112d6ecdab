"""What words mean to the stored queries: for each word that documents have, the terms that it stands for (pure).

A word is looked at once: the exact term of its field, and all patterns that it fits. New terms are looked for among the
words that are known.
"""

from collections.abc import Sequence

import numpy as np

from headwater.flow.operators.search.lists import GrowingLists, Lists
from headwater.flow.operators.search.patterns import fitting
from headwater.flow.operators.search.programs import EXACTLY, TermKey
from headwater.flow.state.runs.equality import Integers

WORDS_MAX = 3_000_000
"""More words than languages have: what comes from identifiers and mistakes in writing is forgotten now and then."""
IGNORED = -1


class Lexicon:
    """Words and terms have numbers. A term may be asked for by many queries."""

    def __init__(self, fields: int) -> None:
        self._terms: dict[TermKey, int] = {}
        self._patterns: list[list[TermKey]] = [[] for _ in range(fields)]
        self._new: list[list[TermKey]] = [[] for _ in range(fields)]
        self._uses: list[int] = []
        self._forget()

    def _forget(self) -> None:
        self._words: list[dict[str, int]] = [{} for _ in self._patterns]
        self._count, self._meanings = 0, GrowingLists()
        for known, new in zip(self._patterns, self._new, strict=True):
            known.extend(new)
            new.clear()

    @property
    def size(self) -> int:
        """How many terms there are."""
        return len(self._uses)

    def number(self, key: TermKey) -> int:
        found = self._terms.get(key)
        if found is None:
            found = self._terms[key] = len(self._uses)
            self._uses.append(0)
            if key.kind == EXACTLY:
                word = self._words[key.field].get(key.text)
                if word is not None:
                    self._meanings.add(word, found)
            else:
                self._new[key.field].append(key)
        self._uses[found] += 1
        return found

    def rarity(self, term: int) -> int:
        """Words that many queries ask for are taken to be in many documents."""
        return self._uses[term]

    def words(self, field: int, words: Sequence[str | None]) -> Integers:
        """The numbers of words of a field, each given once; IGNORED for None."""
        if self._count > WORDS_MAX:
            self._forget()
        self._learn_patterns(field)
        known = self._words[field]
        fresh = [word for word in words if word is not None and word not in known]
        if fresh:
            self._learn(field, list(dict.fromkeys(fresh)))
        return np.fromiter((IGNORED if word is None else known[word] for word in words), np.int64, len(words))

    def _learn(self, field: int, fresh: list[str]) -> None:
        first = self._count
        self._words[field].update(zip(fresh, range(first, first + len(fresh)), strict=True))
        self._count += len(fresh)
        for place, word in enumerate(fresh):
            term = self._terms.get(TermKey(field, EXACTLY, word))
            if term is not None:
                self._meanings.add(first + place, term)
        pairs = fitting(fresh, self._patterns[field])
        self._add(pairs[0] + first, pairs[1], self._patterns[field])

    def _learn_patterns(self, field: int) -> None:
        new, self._new[field] = self._new[field], []
        if not new:
            return
        self._patterns[field] += new
        known = self._words[field]
        pairs = fitting(list(known), new)
        self._add(np.fromiter(known.values(), np.int64, len(known))[pairs[0]], pairs[1], new)

    def _add(self, words: Integers, places: Integers, patterns: Sequence[TermKey]) -> None:
        if len(words):
            numbers = np.fromiter((self._terms[one] for one in patterns), np.int64, len(patterns))
            self._meanings.add_all(words, numbers[places])

    def meanings(self) -> Lists:
        """The terms of each word."""
        return self._meanings.lists()
