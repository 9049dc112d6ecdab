"""Rows to a function of the user's own, at least once."""

from collections.abc import Callable, Sequence

import pyarrow as pa

from headwater.views.mark import Mark

IDEMPOTENCY_KEY = b"idempotency-key"


class ForeachBatchSink:
    """A batch whose function returned may still come again, if the job stops before it has noted that.

    To take it once, keep the batch number together with the rows, or hand on the idempotency key, which stands in the
    metadata of the rows' schema: it is the same whenever the batch comes.
    """

    exactly_once = False

    def __init__(self, function: Callable[[pa.Table, int], None], *, name: str = "foreach") -> None:
        self.name = name
        self._function = function

    def prepare(self, schema: pa.Schema, key: Sequence[str]) -> None:
        """The function sees what it gets."""

    def committed(self, job: str) -> int | None:
        return None

    def write(self, mark: Mark, rows: pa.Table) -> bool:
        key = f"{mark.job}#{self.name}#{mark.batch}".encode()
        metadata = {**(rows.schema.metadata or {}), IDEMPOTENCY_KEY: key}
        self._function(rows.replace_schema_metadata(metadata), mark.batch)
        return True

    def close(self) -> None:
        """Nothing is held."""
