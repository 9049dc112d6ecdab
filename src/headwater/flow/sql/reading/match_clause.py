"""MATCH_RECOGNIZE (...) behind a name of FROM: its clauses as they were written (pure).

sqlglot gives a pattern back in another form than it has. So the clause is cut out of the tokens before a query is
parsed; `match_recognize(orders, '17:90')` stands for it, with where the text between its brackets begins and ends.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sqlglot.tokenizer_core import Token, TokenType

from headwater.errors import InvalidDeclaration
from headwater.flow.sql.reading.source_text import SourceText

MATCH = "match_recognize"
CLAUSES = (
    ("PARTITION", "BY"), ("ORDER", "BY"), ("MEASURES",), ("ONE", "ROW", "PER", "MATCH"),
    ("ALL", "ROWS", "PER", "MATCH"), ("AFTER", "MATCH", "SKIP"), ("PATTERN",), ("WITHIN",), ("SUBSET",), ("DEFINE",),
)  # fmt: skip
HINT = (
    "Write PARTITION BY, ORDER BY, MEASURES, ONE ROW PER MATCH or ALL ROWS PER MATCH, AFTER MATCH SKIP, PATTERN (...), "
    "WITHIN, SUBSET and DEFINE, in this order."
)
SHOWN = {
    (): "all", ("SHOW", "EMPTY", "MATCHES"): "all", ("OMIT", "EMPTY", "MATCHES"): "all omit empty",
    ("WITH", "UNMATCHED", "ROWS"): "all with unmatched",
}  # fmt: skip


@dataclass(frozen=True)
class MatchClause:
    """What `stream.match(...)` is given; WITHIN is its text."""

    by: tuple[str, ...]
    order: str | None
    measures: dict[str, str]
    rows: str
    skip: str
    pattern: str
    within: str | None
    define: dict[str, str]
    subset: dict[str, tuple[str, ...]] = field(default_factory=dict)


def without_matches(tokens: Sequence[Token], source: SourceText) -> list[Token]:
    """Tokens of a query with a call in the place of each MATCH_RECOGNIZE (...)."""
    found: list[Token] = []
    number = 0
    while number < len(tokens):
        one = tokens[number]
        if one.text.lower() != MATCH or one.token_type == TokenType.STRING:
            found.append(one)
            number += 1
            continue
        if not found or number + 1 == len(tokens) or tokens[number + 1].token_type != TokenType.L_PAREN:
            raise source.refusal(one.start, "MATCH_RECOGNIZE stands behind a name, and before a bracket", HINT)
        if found[-1].token_type == TokenType.R_PAREN:
            raise source.refusal(
                one.start, "MATCH_RECOGNIZE stands behind a query in brackets",
                "Give the query a name: WITH paid AS (SELECT ...) SELECT ... FROM paid MATCH_RECOGNIZE (...).",
            )  # fmt: skip
        close = _close(tokens, number + 1, source)
        found += _called(found.pop(), one, tokens[number + 1], tokens[close])
        number = close + 1
    return found


def _close(tokens: Sequence[Token], begin: int, source: SourceText) -> int:
    depth = 0
    for number in range(begin, len(tokens)):
        depth += tokens[number].token_type == TokenType.L_PAREN
        depth -= tokens[number].token_type == TokenType.R_PAREN
        if not depth:
            return number
    raise source.refusal(tokens[begin].start, "the bracket of MATCH_RECOGNIZE is not closed")


def _called(name: Token, word: Token, opening: Token, closing: Token) -> Iterator[Token]:
    said = f"{opening.end + 1}:{closing.start}"
    for kind, text, like in (
        (TokenType.VAR, MATCH, name), (TokenType.L_PAREN, "(", name), (name.token_type, name.text, name),
        (TokenType.COMMA, ",", word), (TokenType.STRING, said, word), (TokenType.R_PAREN, ")", closing),
    ):  # fmt: skip
        yield Token(kind, text, like.line, like.col, like.start, like.end, [])


def match_clause(said: str, tokens: Sequence[Token], source: SourceText) -> MatchClause:
    """The clauses between the brackets; `tokens` are those of the whole text."""
    begin, end = map(int, said.split(":"))
    own = [one for one in tokens if begin <= one.start < end]
    return _Reader(own, source, begin, end).read()


class _Reader:
    def __init__(self, tokens: Sequence[Token], source: SourceText, begin: int, end: int) -> None:
        self._tokens, self._source, self._begin, self._end = tokens, source, begin, end
        self._parts = self._cut()

    def wrong(self, at: int, what: str, hint: str = HINT) -> InvalidDeclaration:
        start = self._tokens[at].start if at < len(self._tokens) else self._end
        return self._source.refusal(start, what, hint)

    def _cut(self) -> dict[tuple[str, ...], tuple[int, int]]:
        """Each clause, with the tokens that follow its words."""
        starts: list[tuple[int, int, tuple[str, ...]]] = []
        depth = after = 0
        for number, one in enumerate(self._tokens):
            if not depth:
                for place, words in enumerate(CLAUSES[after:]):
                    if (count := self._says(number, words)) > 0:
                        starts.append((number, number + count, words))
                        after += place + 1
                        break
            depth += _depth(one)
        if not starts or starts[0][0]:
            raise self.wrong(0, "MATCH_RECOGNIZE begins with no clause that it has, or clauses in another order")
        ends = [*(number for number, _, _ in starts[1:]), len(self._tokens)]
        return {words: (begin, end) for (_, begin, words), end in zip(starts, ends, strict=True)}

    def _says(self, at: int, words: tuple[str, ...]) -> int:
        """How many tokens from one on say some words, 0 if they do not: PARTITION BY is one token."""
        left = list(words)
        for number, one in enumerate(self._tokens[at:]):
            said = one.text.upper().split()
            if not said or left[: len(said)] != said:
                return 0
            left = left[len(said) :]
            if not left:
                return number + 1
        return 0

    def _text(self, at: int, end: int) -> str:
        if at >= end:
            return ""
        return self._source.text[self._tokens[at].start : self._tokens[end - 1].end + 1]

    def _lists(self, at: int, end: int) -> list[tuple[int, int]]:
        """What commas separate."""
        found, begin, depth = [], at, 0
        for number in range(at, end):
            depth += _depth(self._tokens[number])
            if self._tokens[number].token_type == TokenType.COMMA and not depth:
                found.append((begin, number))
                begin = number + 1
        return [*found, (begin, end)] if end > at else []

    def read(self) -> MatchClause:
        rows = "one"
        if (every := self._parts.get(("ALL", "ROWS", "PER", "MATCH"))) is not None:
            words = tuple(self._text(*every).upper().split())
            if words not in SHOWN:
                raise self.wrong(every[0], f"{' '.join(words)} is no way to show matches")
            rows = SHOWN[words]
        pattern = self._parts.get(("PATTERN",))
        if pattern is None or self._tokens[pattern[0]].token_type != TokenType.L_PAREN:
            raise self.wrong(0, "MATCH_RECOGNIZE has no PATTERN (...)")
        skip = self._parts.get(("AFTER", "MATCH", "SKIP"))
        return MatchClause(
            tuple(self._text(*one).strip("`") for one in self._lists(*self._of("PARTITION", "BY"))), self._order(),
            {self._name(*one): self._text(one[0], one[1] - 2) for one in self._lists(*self._of("MEASURES"))},
            rows, self._text(*skip) if skip else "past last row", self._text(pattern[0] + 1, pattern[1] - 1),
            self._within(), dict(map(self._defined, self._lists(*self._of("DEFINE")))),
            dict(map(self._subset, self._lists(*self._of("SUBSET")))),
        )  # fmt: skip

    def _of(self, *words: str) -> tuple[int, int]:
        return self._parts.get(words, (0, 0))

    def _order(self) -> str | None:
        parts = self._lists(*self._of("ORDER", "BY"))
        if not parts:
            return None
        text = self._text(*parts[0])
        if len(parts) > 1 or text.upper().endswith(" DESC"):
            raise self.wrong(
                parts[0][0], "rows of a stream are in the order of its time, the earliest first",
                "Say ORDER BY and that column; rows of one time are in the order of the log.",
            )  # fmt: skip
        return text.removesuffix(" ASC").removesuffix(" asc").strip("`")

    def _within(self) -> str | None:
        at, end = self._of("WITHIN")
        if end == at:
            return None
        words = [one.text for one in self._tokens[at:end] if one.text.upper() != "INTERVAL"]
        return " ".join(words).lower()

    def _name(self, at: int, end: int) -> str:
        if end - at < 3 or self._tokens[end - 2].token_type != TokenType.ALIAS:
            raise self.wrong(at, f"measure {self._text(at, end)} has no name", "Write count(a.*) AS tries.")
        return self._tokens[end - 1].text

    def _defined(self, part: tuple[int, int]) -> tuple[str, str]:
        at, end = part
        if end - at < 3 or self._tokens[at + 1].token_type != TokenType.ALIAS:
            raise self.wrong(at, f"DEFINE has {self._text(at, end)}", "Write DEFINE a AS amount > 2.")
        return self._tokens[at].text, self._text(at + 2, end)

    def _subset(self, part: tuple[int, int]) -> tuple[str, tuple[str, ...]]:
        at, end = part
        names = [one.text for one in self._tokens[at + 3 : end - 1] if one.token_type != TokenType.COMMA]
        if end - at < 5 or self._tokens[at + 1].token_type != TokenType.EQ or not names:
            raise self.wrong(at, f"SUBSET has {self._text(at, end)}", "Write SUBSET s = (a, b).")
        return self._tokens[at].text, tuple(names)


def _depth(token: Token) -> int:
    return {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
