"""The words of a statement, read one after another (pure)."""

import os
from collections.abc import Callable, Sequence
from typing import TypeVar

from sqlglot.tokenizer_core import Token, TokenType

from headwater.errors import InvalidDeclaration
from headwater.flow.sql.reading.source_text import SourceText
from headwater.flow.sql.reading.statements import Option, Value

Part = TypeVar("Part")

QUOTED = TokenType.IDENTIFIER
TEXTS = (TokenType.STRING, TokenType.RAW_STRING)


class Words:
    """Tokens up to the end of a statement, with a position among them."""

    def __init__(self, tokens: Sequence[Token], source: SourceText) -> None:
        self.tokens, self.source, self.position = tuple(tokens), source, 0

    @property
    def start(self) -> int:
        """Where in the text the next word begins; at the end, where the last one did."""
        return self.tokens[min(self.position, len(self.tokens) - 1)].start

    @property
    def done(self) -> bool:
        return self.position >= len(self.tokens)

    @property
    def next(self) -> str:
        """The next word in capital letters; "" at the end, or where it is quoted."""
        if self.done or self.tokens[self.position].token_type in (QUOTED, *TEXTS):
            return ""
        return self.tokens[self.position].text.upper()

    def accept(self, *words: str) -> bool:
        """Pass over these words if they come next."""
        found: list[str] = []
        for number, one in enumerate(self.tokens[self.position :], 1):
            found += [""] if one.token_type in (QUOTED, *TEXTS) else one.text.upper().split()
            if found != list(words[: len(found)]):
                return False
            if len(found) == len(words):
                self.position += number
                return True
        return False

    def expect(self, *words: str) -> None:
        if not self.accept(*words):
            raise self.refusal(f"{' '.join(words)} is expected")

    def refusal(self, message: str, hint: str = "") -> InvalidDeclaration:
        """InvalidDeclaration about what comes next."""
        near = "the end" if self.done else repr(self._text(self.tokens[self.position]))
        return self.source.refusal(self.start, f"{message}, and there is {near}", hint)

    def name(self, what: str) -> str:
        """A name, quoted or not."""
        if not self.done:
            one = self.tokens[self.position]
            if one.token_type == QUOTED or (one.token_type not in TEXTS and one.text.replace("_", "a").isalnum()):
                self.position += 1
                return one.text
        raise self.refusal(f"{what} is expected")

    def dotted(self, what: str) -> str:
        """Names with dots or dashes between them, or a text."""
        if not self.done and self.tokens[self.position].token_type in TEXTS:
            return self.text(what)
        parts = [self.name(what)]
        while not self.done and self.tokens[self.position].text in (".", "-") and self._touches():
            parts.append(self.tokens[self.position].text)
            self.position += 1
            parts.append(self.name(what))
        return "".join(parts)

    def _touches(self) -> bool:
        before, here = self.tokens[self.position - 1 : self.position + 1]
        return before.end + 1 == here.start

    def text(self, what: str) -> str:
        """A text in quotes, or what a variable of the environment has: env('NAME')."""
        if not self.done and self.tokens[self.position].token_type in TEXTS:
            self.position += 1
            return self.tokens[self.position - 1].text
        if self.accept("ENV", "("):
            start, name = self.start, self.text("the name of a variable of the environment")
            self.expect(")")
            if name not in os.environ:
                raise self.source.refusal(start, f"the environment has no variable {name}", "Set it before the run.")
            return os.environ[name]
        raise self.refusal(f"{what} is expected, in single quotes")

    def value(self) -> Value:
        if self.accept("TRUE"):
            return True
        if self.accept("FALSE"):
            return False
        if self.accept("("):
            return tuple(self.listed(lambda: self.text("a text")))
        if not self.done and self.tokens[self.position].token_type == TokenType.NUMBER:
            self.position += 1
            said = self.tokens[self.position - 1].text
            try:
                return int(said) if said.isdigit() else float(said)
            except ValueError:
                self.position -= 1
                raise self.refusal("a number is expected") from None
        return self.text("a value")

    def listed(self, read: Callable[[], Part]) -> list[Part]:
        """Parts with commas between them, up to the closing bracket."""
        found = [read()]
        while self.accept(","):
            found.append(read())
        self.expect(")")
        return found

    def names(self, what: str) -> tuple[str, ...]:
        """(a, b)"""
        self.expect("(")
        return tuple(self.listed(lambda: self.name(what)))

    def options(self) -> dict[str, Option]:
        """WITH (name = value, ...), if it comes next."""
        if not self.accept("WITH"):
            return {}
        self.expect("(")
        found: dict[str, Option] = {}

        def read() -> None:
            start = self.start
            name = self.dotted("the name of an option")
            self.expect("=")
            if name in found:
                raise self.source.refusal(start, f"option {name} is said twice", "Once is enough.")
            found[name] = Option(self.value(), start)

        self.listed(read)
        return found

    def rest(self) -> tuple[Token, ...]:
        """All words that are left."""
        left = self.tokens[self.position :]
        self.position = len(self.tokens)
        return left

    def end(self) -> None:
        if not self.done:
            raise self.refusal("the statement ends here")

    def _text(self, token: Token) -> str:
        return self.source.text[token.start : token.end + 1]
