"""Analyzers: from the words of a text to what is compared. They see every different word once, and remember it (pure).

    standard     small letters
    folded       and without accents and other marks
    a language   small letters, without the stop words of the language, and the stems of the others: "english"

Languages are those of Snowball, whose rules and stop words are libraries (the extra `search`).
"""

import unicodedata
from collections.abc import Callable, Mapping
from functools import cache

from headwater.errors import InvalidDeclaration
from headwater.flow.formats.schema import nearest

STANDARD, FOLDED = "standard", "folded"
WITHOUT_MARKS = str.maketrans({"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ł": "l", "ı": "i"})


class Analyzer:
    """`compared` of a word is None for one that is not looked at; its place counts all the same."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._known: dict[str, str | None] = {}
        self._language = None if name in (STANDARD, FOLDED) else _language(name)

    def compared(self, word: str) -> str | None:
        found = self._known.get(word, word)
        if found is word and word not in self._known:
            if len(self._known) > 1_000_000:
                self._known.clear()
            found = self._known[word] = self._analysed(word)
        return found

    def _analysed(self, word: str) -> str | None:
        small = self.plain(word)
        if self._language is None:
            return small
        stem, stop = self._language
        return None if small in stop else stem(small) or small

    def plain(self, word: str) -> str:
        """As words with wildcards are compared: a part of a word has no stem."""
        small = word.lower()
        if self.name != FOLDED:
            return small
        apart = unicodedata.normalize("NFKD", small)
        return "".join(one for one in apart if not unicodedata.combining(one)).translate(WITHOUT_MARKS)


@cache
def analyzer(name: str) -> Analyzer:
    """InvalidDeclaration if there is none of that name."""
    return Analyzer(name)


def check_analyzers(names: Mapping[str, str], place: object) -> None:
    for field, name in names.items():
        try:
            analyzer(name)
        except KeyError:
            known = [STANDARD, FOLDED, *_languages()]
            raise InvalidDeclaration(
                f"percolate() at {place}: the analyzer of {field} is {name!r}", nearest(name, known)
            ) from None


def _languages() -> list[str]:
    import snowballstemmer

    return [str(one) for one in snowballstemmer.algorithms()]


def _language(name: str) -> tuple[Callable[[str], str], frozenset[str]]:
    """KeyError if there is no such language."""
    try:
        import snowballstemmer
        import stop_words
    except ImportError:
        raise InvalidDeclaration(
            f"analyzer {name} needs libraries that are not installed (snowballstemmer, stop-words)",
            'Install them with: pip install "headwater[search]"',
        ) from None
    stemmer = snowballstemmer.stemmer(name)
    try:
        stops = frozenset(stop_words.get_stop_words(name))
    except stop_words.StopWordError:
        stops = frozenset[str]()
    return stemmer.stemWord, stops
