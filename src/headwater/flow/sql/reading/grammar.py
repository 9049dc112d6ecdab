"""From text to statements: a small grammar of its own for what begins with CREATE, and queries as they are (pure).

CREATE APP name [WITH (...)]
CREATE STREAM name [(columns)] FROM TOPIC topic [WITH (...)]
CREATE TABLE name [(columns)] FROM TOPIC topic | CAPTURED FROM 'url' TABLE table [WITH (...)]
CREATE MATERIALIZED VIEW name [KEY (...)] [COMMENT '...'] [WITH (...)] AS query [EMIT ...]
CREATE VIEW name AS query
CREATE STREAMING TABLE name [COMMENT '...'] [WITH (...)] [AS query]
CREATE FLOW name AS INSERT INTO table [BY NAME] query
CREATE SINK name TO kind ['target'] [TABLE table] [KEY (...)] [WITH (...)] AS query
CREATE ALERT name ON view WHEN condition [WITH (...)] NOTIFY kind 'target' [WITH (...)], ...
"""

from collections.abc import Callable, Sequence

from sqlglot.tokenizer_core import Token, TokenType

from headwater.flow.declare.checks.mistakes import Mistakes
from headwater.flow.formats.schema import nearest
from headwater.flow.sql.reading.dialect import tokens_of
from headwater.flow.sql.reading.source_text import SourceText
from headwater.flow.sql.reading.statements import (
    AlertStatement,
    AppStatement,
    ColumnText,
    FlowStatement,
    NamedQuery,
    Notified,
    Option,
    QueryText,
    SelectStatement,
    SinkStatement,
    Statement,
    StreamingTable,
    StreamStatement,
    TableStatement,
    ViewStatement,
)
from headwater.flow.sql.reading.words import Words

QUERIES = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(")
EMISSIONS = ("UPDATES", "FINAL", "CORRECTIONS")
SINKS = ("PARQUET", "DATABASE", "CONSOLE", "REDIS", "WEBHOOK", "TOPIC")
TARGETS = ("WEBHOOK", "EMAIL", "TOPIC")


def parse_script(source: SourceText) -> list[Statement]:
    """InvalidDeclaration has the mistakes of all statements."""
    mistakes, found = Mistakes(), []
    for tokens in divided(tokens_of(source)):
        with mistakes.gathered():
            found.append(parse_statement(Words(tokens, source)))
    mistakes.refuse()
    return found


def divided(tokens: Sequence[Token]) -> list[list[Token]]:
    """The words of each statement; a semicolon ends one."""
    found: list[list[Token]] = [[]]
    for one in tokens:
        if one.token_type == TokenType.SEMICOLON:
            found.append([])
        else:
            found[-1].append(one)
    return [one for one in found if one]


def parse_statement(words: Words) -> Statement:
    start = words.start
    if words.next in QUERIES:
        return SelectStatement("", start, query_text(words))
    if not words.accept("CREATE"):
        first = words.source.text[start : words.tokens[0].end + 1]
        raise words.source.refusal(
            start, f"it is no query: it begins with {first!r}, and a query with select", "Statements begin with CREATE."
        )
    if words.accept("OR", "REPLACE") or words.accept("OR", "REFRESH"):
        pass  # a declaration is always what the file says now
    for said, parse in CREATED.items():
        if words.accept(*said.split()):
            if words.accept("IF", "NOT", "EXISTS"):
                pass  # likewise
            return parse(words, start)
    hint = nearest(words.next, [one.split()[0] for one in CREATED])
    raise words.refusal("CREATE what is expected", f"{hint} After CREATE: {', '.join(CREATED)}.")


def query_text(words: Words) -> QueryText:
    """All words that are left, and EMIT at their end."""
    if words.done:
        raise words.refusal("a query is expected", "Write SELECT ... FROM ....")
    tokens = list(words.rest())
    for back in (1, 2, 3, 4):
        if len(tokens) > back and tokens[-back - 1].text.upper() == "EMIT" and tokens[-back].text.upper() in EMISSIONS:
            emitted = Words(tokens[-back:], words.source)
            return _emitted(emitted, tuple(tokens[: -back - 1]))
    return QueryText(tuple(tokens))


def _emitted(words: Words, query: tuple[Token, ...]) -> QueryText:
    """UPDATES, FINAL, or CORRECTIONS FOR '1 day'."""
    kind = words.name("how results are emitted").lower()
    horizon = ""
    if kind == "corrections":
        words.expect("FOR")
        horizon = words.text("how long results are corrected")
    words.end()
    return QueryText(query, kind, horizon)


def _app(words: Words, start: int) -> Statement:
    name = words.dotted("the name of the app")
    options = words.options()
    words.end()
    return AppStatement(name, start, options)


def _stream(words: Words, start: int) -> Statement:
    name = words.name("the name of the stream")
    columns, key = _columns(words)
    words.expect("FROM", "TOPIC")
    topic = words.dotted("the name of a topic")
    options = words.options()
    words.end()
    return StreamStatement(name, start, columns, key, topic, options)


def _table(words: Words, start: int) -> Statement:
    name = words.name("the name of the table")
    columns, key = _columns(words)
    if words.accept("CAPTURED", "FROM"):
        url = words.text("the URL of a database")
        words.expect("TABLE")
        captured, topic = words.dotted("the table that is captured"), ""
    elif words.accept("FROM", "TOPIC"):
        url, captured, topic = "", "", words.dotted("the name of a topic")
    else:
        raise words.refusal(
            "where the table's rows are is expected",
            "Write FROM TOPIC name, or CAPTURED FROM 'postgresql://...' TABLE name; for a query, "
            "CREATE MATERIALIZED VIEW.",
        )
    options = words.options()
    words.end()
    return TableStatement(name, start, columns, key, topic, url, captured, options)


def _columns(words: Words) -> tuple[tuple[ColumnText, ...], tuple[str, ...]]:
    """(id BIGINT PRIMARY KEY, amount DECIMAL(12,2), PRIMARY KEY (id, day)), if it is there; and the key."""
    if not words.accept("("):
        return (), ()
    columns: list[ColumnText] = []
    key: list[str] = []

    def read() -> None:
        if words.accept("PRIMARY", "KEY"):
            key.extend(words.names("a column of the key"))
            return
        start, name = words.start, words.name("the name of a column")
        text, keyed = _column_type(words, start)
        columns.append(ColumnText(text, start))
        if keyed:
            key.append(name)

    words.listed(read)
    return tuple(columns), tuple(key)


def _column_type(words: Words, start: int) -> tuple[str, bool]:
    """The text of a column without PRIMARY KEY, and whether that was there; words end before a comma or bracket."""
    depth, parts, keyed = 0, [(start, words.tokens[words.position - 1].end + 1)], False
    while not words.done:
        one = words.tokens[words.position]
        if depth == 0 and one.text in (",", ")"):
            break
        if depth == 0 and words.accept("PRIMARY", "KEY"):
            keyed = True
            continue
        depth += one.text in ("(", "<")
        depth -= {")": 1, ">": 1, ">>": 2}.get(one.text, 0)
        parts.append((one.start, one.end + 1))
        words.position += 1
    said = ""
    for number, (first, end) in enumerate(parts):
        apart = number and first > parts[number - 1][1]
        said += (" " if apart else "") + words.source.text[first:end]
    return said, keyed


def _materialized(words: Words, start: int) -> Statement:
    name = words.name("the name of the view")
    key, doc, options = _heading(words)
    words.expect("AS")
    return ViewStatement(name, start, key, options, doc, query_text(words))


def _heading(words: Words) -> tuple[tuple[str, ...], str, dict[str, Option]]:
    """KEY (...), COMMENT '...' and WITH (...), in any order."""
    key: tuple[str, ...] = ()
    options: dict[str, Option] = {}
    doc = ""
    while True:
        if not key and (words.accept("KEY") or words.accept("PRIMARY", "KEY")):
            key = words.names("a column of the key")
        elif not doc and words.accept("COMMENT"):
            doc = words.text("a comment")
        elif not options and words.next == "WITH":
            options = words.options()
        else:
            return key, doc, options


def _named(words: Words, start: int) -> Statement:
    name = words.name("the name of the view")
    words.expect("AS")
    return NamedQuery(name, start, query_text(words))


def _streaming(words: Words, start: int) -> Statement:
    name = words.dotted("the name of the streaming table")
    key, doc, options = _heading(words)
    if key:
        raise words.source.refusal(start, f"streaming table {name} has a key", "Its rows are facts: leave KEY out.")
    query = query_text(words) if words.accept("AS") else None
    words.end()
    return StreamingTable(name, start, options, doc, query)


def _flow(words: Words, start: int) -> Statement:
    name = words.name("the name of the flow")
    words.expect("AS", "INSERT", "INTO")
    target = words.dotted("the name of a streaming table")
    words.accept("BY", "NAME")
    return FlowStatement(name, start, target, query_text(words))


def _sink(words: Words, start: int) -> Statement:
    name = words.name("the name of the sink")
    words.expect("TO")
    if words.next not in SINKS:
        raise words.refusal("a kind of sink is expected", f"{nearest(words.next, SINKS)}")
    kind, target, table = words.name("a kind of sink").lower(), "", ""
    if words.next not in ("KEY", "WITH", "AS", "TABLE", "COMMENT"):
        target = words.dotted("the topic") if kind == "topic" else words.text("where the sink writes to")
    if words.accept("TABLE"):
        table = words.dotted("the name of a table")
    key, _, options = _heading(words)
    words.expect("AS")
    return SinkStatement(name, start, kind, target, table, key, options, query_text(words))


def _alert(words: Words, start: int) -> Statement:
    name = words.name("the name of the alert")
    words.expect("ON")
    view = words.name("the name of a view")
    words.expect("WHEN")
    first, depth = words.position, 0
    while not words.done and not (depth == 0 and words.next in ("NOTIFY", "WITH")):
        depth += words.next in ("(", "CASE")
        depth -= words.next in (")", "END")
        words.position += 1
    said = words.tokens[first : words.position]
    if not said:
        raise words.refusal("a condition is expected")
    options = words.options()
    words.expect("NOTIFY")
    notified = [_notified(words)]
    while words.accept(","):
        notified.append(_notified(words))
    words.end()
    condition = words.source.text[said[0].start : said[-1].end + 1]
    return AlertStatement(name, start, view, condition, said[0].start, options, tuple(notified))


def _notified(words: Words) -> Notified:
    start = words.start
    if words.next not in TARGETS:
        raise words.refusal("whom to notify is expected", f"Write one of {', '.join(TARGETS)}.")
    kind = words.name("whom to notify").lower()
    target = words.dotted("a topic") if kind == "topic" else words.text("an address")
    return Notified(kind, target, words.options(), start)


CREATED: dict[str, Callable[[Words, int], Statement]] = {
    "APP": _app,
    "STREAM": _stream,
    "TABLE": _table,
    "MATERIALIZED VIEW": _materialized,
    "TEMPORARY VIEW": _named,
    "VIEW": _named,
    "STREAMING TABLE": _streaming,
    "FLOW": _flow,
    "SINK": _sink,
    "ALERT": _alert,
}
