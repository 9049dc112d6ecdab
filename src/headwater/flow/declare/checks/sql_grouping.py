"""SQL text with GROUP BY, taken apart: which rows, grouped by what, which aggregates of them (pure).

    select currency, date(at) as day, count(*) as orders from orders where amount > 0 group by currency, day
    ──► rows  select *, (date(at)) as `day` from orders where amount > 0
        key   currency, day
        agg   count(*) as orders

Only the outermost query is looked at; what is in brackets, quotes and comments is passed over. Spark reads the parts.
"""

import re
from dataclasses import dataclass

from headwater.errors import InvalidDeclaration

TOKEN = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?\*/)|(?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")|(?P<name>`(?:[^`]|``)*`)"""
    r"""|(?P<word>[^\W\d]\w*)|(?P<number>\d[\w.]*)|(?P<space>\s+)|(?P<sign>.)""",
    re.DOTALL,
)
CLAUSES = (
    "with", "select", "from", "where", "group by", "having", "order by", "sort by", "cluster by", "distribute by",
    "limit", "offset", "window", "qualify", "union", "intersect", "except", "minus", "lateral view"
)  # fmt: skip
KEPT = ("select", "from", "where", "group by", "lateral view")
ALIASED = re.compile(r"^(?P<what>.*?)(?:\s+as\s+|\s+|(?<=\)))(?P<name>`(?:[^`]|``)+`|[^\W\d]\w*)$", re.I | re.DOTALL)
PLAIN = re.compile(r"`(?:[^`]|``)+`|[^\W\d]\w*")
OF_SEVERAL = ("rollup", "cube", "grouping sets", "all")


@dataclass(frozen=True)
class Grouping:
    """`rows` is SQL for what goes in; it has every column of `key`."""

    rows: str
    key: tuple[str, ...]
    aggregates: tuple[str, ...]


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    depth: int


def groups(text: str) -> bool:
    """Is the outermost query one with GROUP BY?"""
    return any(name == "group by" for name, _ in _clauses(text))


def parse_grouping(text: str, offset: object) -> Grouping:
    """InvalidDeclaration, with its offset, for what cannot be kept from batch to batch."""
    clauses = _clauses(text)
    for name, _ in clauses:
        if name not in KEPT:
            hint = "Put .where(...) after it: names of results are known there."
            raise _refusal(
                offset, f"{name.upper()} cannot be kept from batch to batch", hint if name == "having" else ""
            )
    parts = dict(clauses)
    if [name for name, _ in clauses][:2] != ["select", "from"] or len(parts) < len(clauses):
        raise _refusal(offset, "it is not SELECT ... FROM ... GROUP BY ...", "Divide it into several app.sql(...).")
    items = [_item(one) for one in _listed(parts["select"])]
    if re.match(r"distinct\b", parts["select"].strip(), re.I):
        raise _refusal(
            offset, "SELECT DISTINCT cannot be kept from batch to batch", "GROUP BY has one row for each key."
        )
    grouped = [_resolved(one, items, offset) for one in _listed(parts["group by"])]
    made = {name: what for what, name in grouped if not _same(what, name)}
    key = tuple(name for _, name in grouped)
    aggregates = tuple(whole for whole, what, name in items if (name or what).lower() not in _lowered(key))
    if not aggregates:
        raise _refusal(offset, "it selects no aggregate", "For one row of each key use .latest(...).")
    columns = "".join(f", ({what}) as `{name}`" for name, what in made.items())
    rest = "".join(f" {name} {body.strip()}" for name, body in clauses if name not in ("select", "group by"))
    return Grouping(f"select *{columns}{rest}", key, aggregates)


def _resolved(one: str, items: list[tuple[str, str, str]], offset: object) -> tuple[str, str]:
    """What is grouped by, and under which name it is selected: by its number, its name, or the same words."""
    if re.match(rf"(?:{'|'.join(OF_SEVERAL)})\b", one, re.I):
        raise _refusal(offset, f"GROUP BY {one.split('(')[0].strip().upper()} cannot be kept from batch to batch", "")
    if one.isdecimal() and 1 <= int(one) <= len(items):
        _, what, name = items[int(one) - 1]
        return what, _bare(name or what)
    for _, what, name in items:
        if _same(one, name) or _same(one, what):
            if not name and not PLAIN.fullmatch(what):
                raise _refusal(offset, f"it groups by {what}, which has no name", f"Select it as {what} as NAME.")
            return what, _bare(name or what)
    raise _refusal(offset, f"it groups by {one}, which it does not select", "The key of a table is among its columns.")


def _same(one: str, other: str) -> bool:
    return bool(one) and " ".join(_bare(one).lower().split()) == " ".join(_bare(other).lower().split())


def _bare(name: str) -> str:
    name = name.strip()
    return name[1:-1].replace("``", "`") if PLAIN.fullmatch(name) and name.startswith("`") else name


def _lowered(names: tuple[str, ...]) -> set[str]:
    return {name.lower() for name in names} | {f"`{name.lower()}`" for name in names}


def _item(text: str) -> tuple[str, str, str]:
    """The whole, what it computes, and the name it gives to that; "" if it gives none."""
    text = text.strip()
    found = ALIASED.match(text)
    if found is None or not found["what"].strip():
        return text, text, ""
    return text, found["what"].strip(), found["name"]


def _listed(text: str) -> list[str]:
    """Divided at commas that are in no brackets."""
    parts = [""]
    for token in _tokens(text):
        if token.text == "," and token.depth == 0:
            parts.append("")
        else:
            parts[-1] += token.text
    return [part.strip() for part in parts]


def _clauses(text: str) -> list[tuple[str, str]]:
    """The clauses of the outermost query, and what stands behind the name of each."""
    found: list[tuple[str, str]] = []
    tokens = _tokens(text.strip().rstrip(";"))
    offset = 0
    while offset < len(tokens):
        name, length = _clause_at(tokens, offset)
        if name and (not found or found[-1][0] != "select" or name == "from"):  # other words may be columns there
            found.append((name, ""))
        elif found:
            found[-1] = found[-1][0], found[-1][1] + "".join(one.text for one in tokens[offset : offset + length])
        offset += length
    return found


def _clause_at(tokens: list[_Token], offset: int) -> tuple[str, int]:
    """The name of the clause that begins here, and how many tokens it takes."""
    first = tokens[offset]
    if first.kind != "word" or first.depth:
        return "", 1
    if first.text.lower() in CLAUSES:
        called = offset + 1 < len(tokens) and tokens[offset + 1].text == "("  # as a function, such as window(...)
        return ("", 1) if called and first.text.lower() == "window" else (first.text.lower(), 1)
    if offset + 2 < len(tokens) and tokens[offset + 1].kind == "space":
        both = f"{first.text} {tokens[offset + 2].text}".lower()
        if both in CLAUSES:
            return both, 3
    return "", 1


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    depth = 0
    for match in TOKEN.finditer(text):
        kind = str(match.lastgroup)
        said = " " if kind == "comment" else match.group()
        depth -= said in (")", "]")
        found.append(_Token("space" if kind == "comment" else kind, said, depth))
        depth += said in ("(", "[")
    return found


def _refusal(offset: object, message: str, hint: str) -> InvalidDeclaration:
    return InvalidDeclaration(f"sql at {offset}: {message}", hint)
