"""What an operator of tables makes of a batch."""

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa

from headwater.flow.state.manifest import RunInfo


class TableStep(NamedTuple):
    """What changed of a table, and what each store is to commit."""

    changes: pa.RecordBatch
    runs: Mapping[str, RunInfo | None]
