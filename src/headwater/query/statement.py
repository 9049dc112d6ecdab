"""A SELECT in Spark's dialect: parsed, checked, and written for DuckDB. Pure.

Each place where the statement reads a view becomes a *scan*: which columns of it are wanted, and conditions that every
row must meet to matter, so that only those rows are fetched from the store. The statement for DuckDB reads the scans
instead, by names that are ours.
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import NamedTuple, Protocol

import sqlglot
from sqlglot import exp
from sqlglot.errors import OptimizeError, ParseError, SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import traverse_scope

from headwater.errors import InvalidQuery
from headwater.query.conditions import conditions_of, first_rows
from headwater.query.repairs import repaired
from headwater.views.column_types import spoken
from headwater.views.shape import Shape

DIALECT, TARGET = "spark", "duckdb"
SQL_LETTERS_MAX = 20_000
SCAN = "scan_"
SOME_SPARK_FUNCTIONS = sorted(name.lower() for name in sqlglot.Dialect.get_or_raise(DIALECT).parser_class.FUNCTIONS)

# A statement that it cannot read is an error of ours, not a warning of sqlglot's.
logging.getLogger("sqlglot").setLevel(logging.ERROR)


class Relation(Protocol):
    """Something that can be read by its name."""

    @property
    def name(self) -> str: ...

    @property
    def shape(self) -> Shape: ...


class Catalogue(Protocol):
    """What can be read. InvalidQuery, without a place, if there is no such thing, or more than one."""

    def find(self, parts: Sequence[str]) -> Relation: ...


@dataclass
class Scan:
    """One place where a statement reads a relation."""

    relation: Relation
    columns: list[str] = field(default_factory=list)
    where: dict[str, object] = field(default_factory=dict)
    limit: int | None = None


@dataclass(frozen=True)
class Statement:
    sql: str
    """For DuckDB."""
    scans: Mapping[str, Scan]
    """By the name that `sql` reads."""
    names: Mapping[str, str]
    """How names of columns are written, by their small letters."""
    text: str

    def name(self, column: str) -> str:
        return self.names.get(column.lower(), column)


def parse(text: str, catalogue: Catalogue) -> Statement:
    """InvalidQuery names the line, the column and the thing."""
    tree = _tree(text)
    _refuse_others(tree)
    try:
        return _translated(tree, text, catalogue)
    except RecursionError:
        raise InvalidQuery("the statement is nested too deeply to be read", "Say it in fewer brackets.") from None


class Named(NamedTuple):
    """A relation's name in the text of a statement, and where it stands there."""

    parts: tuple[str, ...]
    begin: int
    end: int


def names_in(text: str) -> list[Named]:
    """The names of what a SELECT reads, in the order of the text, but for those that it gives itself. InvalidQuery if
    it is none."""
    tree = _tree(text)
    _refuse_others(tree)
    found = {}
    for scope in traverse_scope(tree):
        for source in scope.sources.values():
            if isinstance(source, exp.Table):
                places = [part.meta for part in source.parts]
                one = Named(tuple(part.name for part in source.parts), places[0]["start"], places[-1]["end"] + 1)
                found[one.begin] = one
    return [found[begin] for begin in sorted(found)]


def _tree(text: str) -> exp.Query:
    if len(text) > SQL_LETTERS_MAX:
        raise InvalidQuery(f"the statement has {len(text):,} letters; {SQL_LETTERS_MAX:,} are possible")
    try:
        found = [one for one in sqlglot.parse(text, dialect=DIALECT) if one is not None]
    except ParseError as error:
        raise _unreadable(error) from None
    except RecursionError:
        raise InvalidQuery("the statement is nested too deeply to be read", "Say it in fewer brackets.") from None
    except SqlglotError as error:
        raise InvalidQuery(f"this is no SQL: {' '.join(str(error).split())[:200]}") from None
    if len(found) != 1:
        raise InvalidQuery(f"one SELECT can be asked at a time, and these are {len(found)} statements")
    (tree,) = found
    if not isinstance(tree, exp.Query) or isinstance(tree, exp.Table):
        word = text.split(maxsplit=1)[0][:40].upper()
        raise InvalidQuery(f"line 1, column 1: {word} cannot be asked here", "Only SELECT can; nothing is written.")
    return tree


def _unreadable(error: ParseError) -> InvalidQuery:
    first = error.errors[0] if error.errors else {}
    word, line, last = str(first.get("highlight", "")), first.get("line", 1), first.get("col", 1)
    near = f' near "{word[:60]}"' if word.strip() else " at its end"
    column = max(1, int(last) - len(word) + 1)
    return InvalidQuery(
        f"line {line}, column {column}: this is no SQL{near} ({first.get('description', 'unexpected')})"
    )


REFUSED: tuple[tuple[type[exp.Expr], str], ...] = (
    (exp.Into, "SELECT INTO would write"),
    (exp.Placeholder, "there are no parameters here"),
    (exp.Parameter, "there are no parameters here"),
    (exp.Lock, "nothing can be locked here"),
    (exp.DML, "only SELECT can be asked here; nothing is written"),
    (exp.DDL, "only SELECT can be asked here; nothing is written"),
    (exp.Command, "only SELECT can be asked here"),
)


def _refuse_others(tree: exp.Expr) -> None:
    for node in tree.walk():
        for kind, why in REFUSED:
            if isinstance(node, kind) and not isinstance(node, exp.Query):
                raise InvalidQuery(f"{place_of(node)}{why}")
        if isinstance(node, exp.Table) and not isinstance(node.this, exp.Identifier):
            called = node.this.sql(dialect=DIALECT)[:80]
            raise InvalidQuery(f"{place_of(node)}{called} cannot be read", "FROM names views, and nothing else.")


def place_of(node: exp.Expr) -> str:
    """Where a node stands in the text, for the beginning of a sentence.

    >>> place_of(sqlglot.parse_one("select a,\\n  b from t", dialect="spark").selects[1])
    'line 2, column 3: '
    """
    for one in node.walk():
        if "line" in one.meta and "col" in one.meta:
            width = one.meta["end"] - one.meta["start"]
            return f"line {one.meta['line']}, column {max(1, one.meta['col'] - width)}: "
    return ""


def _translated(tree: exp.Query, text: str, catalogue: Catalogue) -> Statement:
    scans = dict(_scans(tree, catalogue))
    _name_results(tree)
    names = {column.lower(): column for scan in scans.values() for column in scan.relation.shape.names}
    names |= {select.alias.lower(): select.alias for select in tree.selects if isinstance(select, exp.Alias)}
    schema: dict[str, object] = {
        name: {column.name: spoken(column.type) for column in scan.relation.shape.columns}
        for name, scan in scans.items()
    }
    try:
        typed = qualify(tree, dialect=DIALECT, schema=schema, sql=text)
        qualified = repaired(annotate_types(typed, schema=schema, dialect=DIALECT))
    except OptimizeError as error:
        raise _unresolved(error, tree, scans) from None
    except SqlglotError as error:
        raise InvalidQuery(f"this cannot be asked: {_plain(str(error))[:300]}") from None
    _refuse_twins(qualified, names)
    for select in qualified.find_all(exp.Select):
        _narrow(select, scans)
    for name, columns in _columns_read(qualified, scans):
        known = {column.lower(): column for column in scans[name].relation.shape.names}
        scans[name].columns += [known[one] for one in columns if known[one] not in scans[name].columns]
    try:
        sql = qualified.sql(dialect=TARGET, unsupported_level=sqlglot.ErrorLevel.RAISE)
    except SqlglotError as error:
        raise InvalidQuery(f"this cannot be asked: {_plain(str(error))[:300]}") from None
    return Statement(sql, scans, names, text)


def _scans(tree: exp.Query, catalogue: Catalogue) -> Iterator[tuple[str, Scan]]:
    """Gives every table that is no subquery of the statement a name of ours."""
    number = 0
    for scope in traverse_scope(tree):
        for source in list(scope.sources.values()):
            if not isinstance(source, exp.Table) or (source.name.startswith(SCAN) and source.args.get("db") is None):
                continue
            parts = [part.name for part in source.parts]
            try:
                relation = catalogue.find(parts)
            except InvalidQuery as error:
                raise InvalidQuery(f"{place_of(source)}{error.args[0]}", error.hint) from None
            name, number = f"{SCAN}{number}", number + 1
            said = source.alias or parts[-1]
            for column in scope.columns:
                if column.args.get("db") is not None and [part.name for part in column.parts[:-1]] == parts:
                    column.set("db", None)
            source.set("this", exp.to_identifier(name))
            source.set("db", None)
            source.set("catalog", None)
            source.set("alias", exp.TableAlias(this=exp.to_identifier(said, quoted=True)))
            yield name, Scan(relation)


def _name_results(tree: exp.Query) -> None:
    """A result without a name is called what it is: count(*)."""
    select = next(tree.find_all(exp.Select, bfs=True), None)
    for one in select.expressions if select is not None else ():
        if not isinstance(one, exp.Alias | exp.Aliases | exp.Column | exp.Star | exp.Explode):
            name = one.sql(dialect=DIALECT, normalize_functions="lower")[:100]
            one.replace(exp.alias_(one.copy(), name, quoted=True))


UNRESOLVED = re.compile(r"Column '(?P<name>[^']*)' could not be resolved|Unknown column: (?P<other>\S+)")


def _unresolved(error: OptimizeError, tree: exp.Query, scans: Mapping[str, Scan]) -> InvalidQuery:
    text = _plain(str(error))
    found = UNRESOLVED.search(text)
    if found is None:
        return InvalidQuery(f"this cannot be asked: {text[:300]}")
    name = (found["name"] or found["other"]).replace('"', "").replace("`", "").rpartition(".")[2]
    where = next((place_of(one.this) for one in tree.find_all(exp.Column) if one.name.lower() == name.lower()), "")
    columns = [column for scan in scans.values() for column in scan.relation.shape.names]
    owners = [
        scan.relation.name for scan in scans.values() if name.lower() in map(str.lower, scan.relation.shape.names)
    ]
    if len(owners) > 1:
        said = f"{where}{name} may be a column of any of {', '.join(owners)}"
        return InvalidQuery(said, f"Name one of them, as in {owners[0].rpartition('.')[2]}.{name}.")
    close = get_close_matches(name, columns, n=1)
    hint = f'Did you mean "{close[0]}"? ' if close else ""
    listed = "; ".join(f"{scan.relation.name} has {', '.join(scan.relation.shape.names)}" for scan in scans.values())
    return InvalidQuery(f'{where}there is no column "{name}"', f"{hint}{listed or 'No view is read here'}.")


def _plain(text: str) -> str:
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", text).split())


def _refuse_twins(tree: exp.Expr, names: Mapping[str, str]) -> None:
    seen: set[str] = set()
    for select in tree.selects if isinstance(tree, exp.Query) else ():
        name = select.alias_or_name.lower()
        if name in seen:
            raise InvalidQuery(
                f'two columns of the result are called "{names.get(name, name)}"', "Give one another name with AS."
            )
        seen.add(name)


def _narrow(select: exp.Select, scans: Mapping[str, Scan]) -> None:
    """Conditions of WHERE that a scan can obey, and LIMIT where nothing else says which rows."""
    tables = {source.alias: source for source in sources_of(select) if isinstance(source, exp.Table)}
    for alias, table in tables.items():
        scan = scans.get(table.name)
        if scan is not None:
            scan.where = conditions_of(select, alias, scan.relation.shape)
            scan.limit = first_rows(select, scan.where)


def sources_of(select: exp.Select) -> list[exp.Expr]:
    origin = select.args.get("from_") or select.args.get("from")
    found = [] if origin is None else [origin.this]
    return found + [join.this for join in select.args.get("joins") or ()]


def _columns_read(tree: exp.Expr, scans: Mapping[str, Scan]) -> Iterator[tuple[str, list[str]]]:
    """Every column that stands in the statement, for each scan that it may mean."""
    by_alias: dict[str, list[str]] = {}
    for scope in traverse_scope(tree):
        for alias, source in scope.sources.items():
            if isinstance(source, exp.Table) and source.name in scans:
                by_alias.setdefault(alias, []).append(source.name)
    for column in tree.find_all(exp.Column):
        for name in by_alias.get(column.table, ()):
            if column.name.lower() in {known.lower() for known in scans[name].relation.shape.names}:
                yield name, [column.name.lower()]


def nearest_function(name: str) -> str:
    close = get_close_matches(name.lower(), SOME_SPARK_FUNCTIONS, n=1)
    return close[0] if close else ""
