"""Rows as lines for a person, at least once."""

from collections.abc import Callable, Sequence

import pyarrow as pa

from headwater.views.column_types import plain
from headwater.views.json_text import json_text
from headwater.views.mark import Mark


class ConsoleSink:
    exactly_once = False

    def __init__(self, show: Callable[[str], None], *, rows_max: int = 20, name: str = "console") -> None:
        """`show` gets one text per batch, several lines long."""
        self.name = name
        self._show, self._rows_max = show, rows_max

    def prepare(self, schema: pa.Schema, key: Sequence[str]) -> None:
        """Anything can be shown."""

    def committed(self, job: str) -> int | None:
        return None

    def write(self, mark: Mark, rows: pa.Table) -> bool:
        lines = [f"batch {mark.batch}: {rows.num_rows} rows", *json_lines(rows.slice(0, self._rows_max))]
        if rows.num_rows > self._rows_max:
            lines.append(f"… and {rows.num_rows - self._rows_max} more")
        self._show("\n".join(lines))
        return True

    def close(self) -> None:
        """Nothing is held."""


def json_lines(rows: pa.Table) -> list[str]:
    """One JSON object per row."""
    target = pa.schema([pa.field(field.name, plain(field.type)) for field in rows.schema])
    structs = rows.cast(target).to_struct_array().combine_chunks()
    return [] if rows.num_rows == 0 else list(json_text(structs).to_pylist())
