"""Drops rows: those of an output that only needs its state brought up to date."""

from collections.abc import Sequence

import pyarrow as pa

from headwater.views.mark import Mark


class DiscardSink:
    exactly_once = True

    def __init__(self, name: str) -> None:
        self.name = name

    def prepare(self, schema: pa.Schema, key: Sequence[str]) -> None: ...

    def committed(self, job: str) -> int | None:
        return None

    def write(self, mark: Mark, rows: pa.Table) -> bool:
        return True

    def close(self) -> None: ...
