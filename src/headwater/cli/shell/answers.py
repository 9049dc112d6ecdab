"""Answers as texts: a table, a line for each column, CSV, JSON. Pure.

What is in a row was written by others: nothing of it reaches a terminal that could move its cursor or set its title.
"""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.cells import cell_len

Row = dict[str, Any]
NULL = "null"
FORMATS = ("table", "expanded", "csv", "json")
NUMBERS = re.compile(r"(byte|short|int|long|float|double|decimal|integer|bigint|smallint|tinyint)\b", re.IGNORECASE)
UNPRINTED = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def shown(value: object) -> str:
    r"""
    >>> shown("a\x1b[2J\n"), shown(None), shown(True), shown({"k": [1]}), shown("1.50")
    ('a\\x1b[2J\\n', 'null', 'true', '{"k": [1]}', '1.50')
    """
    if value is None:
        return NULL
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return UNPRINTED.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    letter = ord(found[0])
    return ESCAPES.get(found[0]) or (f"\\x{letter:02x}" if letter < 256 else f"\\u{letter:04x}")


def table_text(columns: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[bool] = ()) -> str:
    """Columns of numbers are aligned to the right.

    >>> print(table_text(["a", "n"], [["x", 1], ["long", 22]], [False, True]))
     a    |  n
    ------+----
     x    |  1
     long | 22
    """
    heads, cells = [shown(name) for name in columns], [[shown(value) for value in row] for row in rows]
    widths = [max(map(cell_len, [head, *(row[index] for row in cells)])) for index, head in enumerate(heads)]
    aligned = [*right, *[False] * (len(heads) - len(right))]
    lines = [_line(heads, widths, aligned), "+".join("-" * (width + 2) for width in widths)]
    return "\n".join([*lines, *(_line(row, widths, aligned) for row in cells)])


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = []
    for cell, width, number in zip(cells, widths, right, strict=True):
        space = " " * (width - cell_len(cell))
        padded.append(f" {space}{cell} " if number else f" {cell}{space} ")
    return "|".join(padded).rstrip()


def expanded_text(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A line for each column.

    >>> print(expanded_text(["a", "long"], [[1, None]]))
    -[ row 1 ]-
    a    | 1
    long | null
    """
    width = max((cell_len(shown(name)) for name in columns), default=0)
    lines = []
    for number, row in enumerate(rows, start=1):
        lines.append(f"-[ row {number} ]-")
        for name, value in zip(columns, row, strict=True):
            head = shown(name)
            lines.append(f"{head}{' ' * (width - cell_len(head))} | {shown(value)}")
    return "\n".join(lines)


def csv_text(columns: Sequence[str], rows: Sequence[Sequence[object]], *, heads: bool = True) -> str:
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    if heads:
        writer.writerow(columns)
    writer.writerows([["" if one is None else one if isinstance(one, str) else json.dumps(one, ensure_ascii=False)
                       for one in row] for row in rows])  # fmt: skip
    return target.getvalue().rstrip("\n")


def answer_text(answer: Mapping[str, Any], format: str) -> str:
    """The answer to a SELECT, as POST /query gives it."""
    if format == "json":
        return json.dumps({name: answer[name] for name in ("rows", "cut", "position", "views")}, ensure_ascii=False)
    columns = [one["name"] for one in answer["columns"]]
    rows = [[row[name] for name in columns] for row in answer["rows"]]
    if format == "csv":
        return csv_text(columns, rows)
    foot = footer(answer)
    if format == "expanded":
        return "\n".join(filter(None, [expanded_text(columns, rows), foot]))
    return f"{table_text(columns, rows, numbers_of(answer))}\n{foot}"


def numbers_of(answer: Mapping[str, Any]) -> list[bool]:
    return [bool(NUMBERS.match(one["type"])) for one in answer["columns"]]


def footer(answer: Mapping[str, Any]) -> str:
    """
    >>> footer({"rows": [1], "cut": True, "position": {"orders": {"0": 3, "1": 0}}, "views": {"a.b": {}}})
    '(the first 1 row; there are more, see \\\\limit · position orders/0@2)'
    """
    count = len(answer["rows"])
    rows = f"{count:,} {'row' if count == 1 else 'rows'}"
    said = [f"the first {rows}; there are more, see \\limit" if answer["cut"] else rows]
    if answer["position"] is not None and answer["views"]:
        said.append(f"position {position_text(answer['position'])}")
    elif answer["views"]:
        said += [f"{name} at {position_text(position)}" for name, position in answer["views"].items()]
    return f"({' · '.join(said)})"


def position_text(position: Mapping[str, Mapping[str, int]]) -> str:
    """The last records that are included, as `--at-least` and `at_least` take them.

    >>> position_text({"orders": {"1": 8, "0": 42}, "users": {"0": 0}})
    'orders/0@41,orders/1@7'
    >>> position_text({})
    'nothing yet'
    """
    parts = [
        f"{topic}/{partition}@{offset - 1}"
        for topic, offsets in sorted(position.items())
        for partition, offset in sorted((int(number), offset) for number, offset in offsets.items())
        if offset
    ]
    return ",".join(parts) or "nothing yet"


def changes_text(
    answer: Mapping[str, Any], changes: Sequence[tuple[str, Row]], format: str, first: bool
) -> Iterator[str]:
    """The lines of a followed query: what was added to its result and what was removed from it."""
    columns = [one["name"] for one in answer["columns"]]
    if format == "json":
        for op, row in changes:
            yield json.dumps({"op": op, "row": row}, ensure_ascii=False)
        yield json.dumps({"progress": answer["position"], "views": answer["views"]}, ensure_ascii=False)
    elif format == "csv":
        rows = [[op, *(row[name] for name in columns)] for op, row in changes]
        if first or rows:
            yield csv_text(["op", *columns], rows, heads=first)
    else:
        if first:
            yield f"-- + is added, - is removed: {', '.join(shown(name) for name in columns)}"
        for op, row in changes:
            yield f"{'+' if op == 'insert' else '-'} {' | '.join(shown(row[name]) for name in columns)}"
