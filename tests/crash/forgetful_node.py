"""A node with a planted bug: after a restart it does not recognise a retry."""

import sys

from headwater.log.batch_format import BatchHeader
from headwater.log.producer_state import ProducerStates
from tests.crash.node_process import main

noted = ProducerStates.note


def note(self: ProducerStates, header: BatchHeader, *, elapsed_ms: int) -> None:
    """What recovery finds in the files is forgotten; so is what the checkpoint says."""
    if sys._getframe(1).f_code.co_name != "_open":
        noted(self, header, elapsed_ms=elapsed_ms)


if __name__ == "__main__":
    ProducerStates.note = note  # type: ignore[method-assign]
    ProducerStates.from_rows = classmethod(lambda cls, rows, elapsed_ms: cls())  # type: ignore[assignment, method-assign]
    main(*sys.argv[1:])
