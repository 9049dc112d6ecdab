"""Reads queries with sqlglot as Spark's dialect has them, and writes expressions back as they were written (pure).

sqlglot knows functions and gives many of them another form; here every function stays the call that it was, and every
text the characters that it was, so that Spark is handed what the user wrote with names of columns resolved.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from headwater.flow.sql.reading.match_clause import without_matches
from headwater.flow.sql.reading.source_text import SourceText

WINDOW_FUNCTIONS = ("tumble", "hop", "session")
"""Table functions whose first input may have TABLE before its name."""
FUNCTIONS_TOO = (TokenType.WINDOW, TokenType.SESSION)
"""Words that are functions, or names of their results, before a bracket or a dot."""
WITH_WORDS = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "POSITION", "SUBSTRING", "OVERLAY")
"""Functions that have words between their brackets: CAST(x AS INT)."""
BEFORE_TABLE = (TokenType.FROM, TokenType.JOIN, TokenType.COMMA)
PLAIN = re.compile(r"[A-Za-z]\w*")
DEPTH_MAX = 200
"""Brackets within each other: more would be too deep for a recursive parser."""


class QueryParser(SparkParser):
    """Spark's, without a form of its own for any function whose arguments are a list of expressions."""

    FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., exp.Expr | None]]] = {
        name: parse for name, parse in SparkParser.FUNCTION_PARSERS.items() if name in WITH_WORDS
    }


class Dialect(Spark):
    Parser = QueryParser


DIALECT = Dialect()
KEYWORDS = frozenset(word for said in Spark.Tokenizer.KEYWORDS for word in said.split() if word.isalpha())


def tokens_of(source: SourceText) -> list[Token]:
    """InvalidDeclaration if a quote or a comment does not end."""
    try:
        return _joined_texts(DIALECT.tokenize(source.text))
    except SqlglotError:
        start = _unclosed(source.text)
        raise source.refusal(start, f"{source.text[start : start + 12]!r} begins a text that does not end") from None


def parse_query(tokens: Sequence[Token], source: SourceText) -> exp.Query:
    """The tree of a query, whose names know where they stand. InvalidDeclaration if it cannot be read."""
    given = _without_table_words(without_matches(tokens, source))
    _refuse_depth(given, source)
    try:
        found = [one for one in DIALECT.parser().parse(list(given), source.text) if one is not None]
    except ParseError as error:
        raise _misread(error, tokens, source) from None
    except (SqlglotError, RecursionError, ValueError, KeyError, IndexError, AttributeError, TypeError):
        # sqlglot has no promise of which errors its parser raises for text that is no SQL.
        raise source.refusal(tokens[0].start, "it cannot be read") from None
    if len(found) != 1 or not isinstance(found[0], exp.Query):
        raise source.refusal(tokens[0].start, "it is no query", "Write SELECT ... FROM ....")
    return found[0]


def written(node: exp.Expr) -> str:
    """The text of an expression, in one line."""
    text: str = node.sql(dialect=DIALECT, normalize_functions=False, comments=False)
    return text


def name_text(name: str) -> str:
    """A column's name as Spark reads it.

    >>> name_text("amount"), name_text("select"), name_text("a b")
    ('amount', '`select`', '`a b`')
    """
    plain = PLAIN.fullmatch(name) and name.upper() not in KEYWORDS
    return name if plain else "`" + name.replace("`", "``") + "`"


def plain_name(text: str) -> str:
    """The name that a text is and nothing else; "" if it is more.

    >>> plain_name("amount"), plain_name("`order`"), plain_name("amount + 1")
    ('amount', 'order', '')
    """
    name = text[1:-1] if text[:1] == text[-1:] == "`" else text
    return name if PLAIN.fullmatch(name) else ""


def as_written(node: exp.Expr, source: SourceText) -> exp.Expr:
    """A copy in which texts are the characters that stand in the source."""
    return node.copy().transform(lambda one: _verbatim(one, source))


def _verbatim(node: exp.Expr, source: SourceText) -> exp.Expr:
    text_alone = isinstance(node, exp.Literal) and node.is_string and not isinstance(node.parent, exp.Interval)
    if text_alone and "start" in node.meta:
        text = source.text[node.meta["start"] : node.meta["end"] + 1]
        if text[:1] in ("'", '"'):
            return exp.Var(this=text)
    return node


def _joined_texts(tokens: Iterable[Token]) -> list[Token]:
    """'it''s' is one text to Spark, and two to sqlglot."""
    found: list[Token] = []
    for one in tokens:
        last = found[-1] if found else None
        both = last is not None and one.token_type == last.token_type == TokenType.STRING
        if last is not None and both and last.end + 1 == one.start:
            found[-1] = Token(
                TokenType.STRING, f"{last.text}'{one.text}", last.line, one.col, last.start, one.end, last.comments
            )
        else:
            found.append(one)
    return found


def _without_table_words(tokens: Sequence[Token]) -> list[Token]:
    """`TUMBLE(TABLE orders, ...)`, `FROM TABLE(TUMBLE(...))` and `FROM STREAM orders`, without the words."""
    found: list[Token] = []
    closing: list[int] = []
    depth = 0
    for number, one in enumerate(tokens):
        before, after = tokens[number - 1 : number], tokens[number + 1 : number + 2]
        kind = one.token_type
        if kind == TokenType.TABLE and before and _calls_window(tokens, number):
            continue
        if kind == TokenType.TABLE and before and before[0].token_type in BEFORE_TABLE and _opens(after):
            closing.append(depth)
            continue
        if _opens(before) and closing and depth == closing[-1] + 1 and tokens[number - 2].token_type == TokenType.TABLE:
            found.pop()
        if kind == TokenType.VAR and one.text.lower() == "stream" and _names_stream(before, after):
            continue
        if kind in FUNCTIONS_TOO and (_opens(after) or (after and after[0].text == ".")):
            one = _as_name(one)
        depth += kind == TokenType.L_PAREN
        depth -= kind == TokenType.R_PAREN
        if kind == TokenType.R_PAREN and closing and depth == closing[-1]:
            closing.pop()
            continue
        found.append(one)
    return found


def _as_name(token: Token) -> Token:
    return Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end, token.comments)


def _calls_window(tokens: Sequence[Token], number: int) -> bool:
    opening, function = tokens[number - 1 : number], tokens[number - 2 : number - 1]
    return _opens(opening) and bool(function) and function[0].text.lower() in WINDOW_FUNCTIONS


def _opens(tokens: Sequence[Token]) -> bool:
    return bool(tokens) and tokens[0].token_type == TokenType.L_PAREN


def _names_stream(before: Sequence[Token], after: Sequence[Token]) -> bool:
    """Spark says `FROM STREAM orders` of what is read as a stream."""
    named = bool(after) and after[0].token_type in (TokenType.VAR, TokenType.IDENTIFIER)
    return bool(before) and before[0].token_type in BEFORE_TABLE and named


def _refuse_depth(tokens: Sequence[Token], source: SourceText) -> None:
    depth = 0
    for one in tokens:
        depth += one.token_type in (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE)
        depth -= one.token_type in (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END)
        if depth > DEPTH_MAX:
            raise source.refusal(one.start, f"more than {DEPTH_MAX} brackets are within each other")


def _misread(error: ParseError, tokens: Sequence[Token], source: SourceText) -> Exception:
    first = error.errors[0] if error.errors else {}
    line, column = first.get("line"), first.get("col")
    near = next((one for one in tokens if (one.line, one.col) == (line, column)), tokens[-1])
    what = str(first.get("description") or "").partition(" but got ")[0].rstrip(".") or "it is no SQL"
    return source.refusal(near.start, f"it cannot be read: {what} near {source.text[near.start : near.end + 1]!r}")


def _unclosed(text: str) -> int:
    """Where the quote or comment begins that does not end."""
    closed = re.compile(
        r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`(?:[^`]|``)*`|[^'\"`/-]+|/(?!\*)|-(?!-)", re.DOTALL
    )
    position = 0
    while found := closed.match(text, position):
        position = found.end()
    return min(position, max(len(text) - 1, 0))
