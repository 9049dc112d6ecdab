"""Compiles the loops on a thread of their own: a server ends a connection whose client is silent for too long.

Until they are there, a capture that lags uses the interpreted code.
"""

import logging
import threading
from functools import cache
from typing import TYPE_CHECKING

from headwater.capture.change import CapturedTable
from headwater.capture.postgresql.assembler import Assembler, SourceBlock
from headwater.capture.postgresql.pgoutput import Column, Relation
from headwater.capture.postgresql.tables import Plan
from headwater.capture.postgresql.types import TypeFacts

if TYPE_CHECKING:
    from headwater.capture.postgresql.rows.run import RunFinder

_logger = logging.getLogger(__name__)
_loaded = threading.Event()

TEXT = 25
ADDRESS_BYTES, TIMES_BYTES, SENT_BYTES = 8, 8, 16
TABLE = CapturedTable("public", "rows", "rows", ("key",), (0,))
RELATION = Relation(1, "public", "rows", "d", (Column("key", TEXT, -1, True),))


def run_finder(assembler: Assembler, *, messages_min: int) -> "RunFinder | None":
    """None until the loops are there.

    The first call starts loading them: a capture that never lags does without a compiler,
    which takes a second to load."""
    if not _loaded.is_set():
        _begin()
        return None
    from headwater.capture.postgresql.rows.run import RunFinder

    return RunFinder(assembler, messages_min=messages_min)


@cache
def _begin() -> threading.Thread:
    thread = threading.Thread(target=_load, name="headwater-capture-loops", daemon=True)
    thread.start()
    return thread


def _load() -> None:
    try:
        load()
    except Exception:
        _logger.exception("the loops of captures cannot be compiled; changes are decoded one by one")


def load() -> None:
    """Decode a row that is in no database: a function is compiled at its first call."""
    from headwater.capture.postgresql.rows.run import RunFinder
    from headwater.capture.run import Route
    from headwater.log.record_framing import encode_contents

    assembler = Assembler(
        lambda relation: Plan(TABLE, relation, {TEXT: TypeFacts("text")}),
        SourceBlock(capture="none", database="none", version="0"),
    )
    assembler.take(0, RELATION)
    finder = RunFinder(assembler, messages_min=1)
    finder.begin([_message(body) for body in (_BEGIN, _INSERT, _COMMIT)])
    finder.take(0)
    for _, run in finder.take_found():
        for landed in run.written([Route(partitions=1, followed=True)], now_ms=0).landed:
            encode_contents([landed.contents])
    _loaded.set()


def _message(body: bytes) -> bytes:
    return b"w" + bytes(ADDRESS_BYTES + SENT_BYTES) + body


_BEGIN = b"B" + (9).to_bytes(ADDRESS_BYTES, "big") + bytes(TIMES_BYTES) + (1).to_bytes(4, "big")
_INSERT = b"I" + (1).to_bytes(4, "big") + b"N" + (1).to_bytes(2, "big") + b"t" + (1).to_bytes(4, "big") + b"x"
_COMMIT = b"C\0" + (9).to_bytes(ADDRESS_BYTES, "big") + (17).to_bytes(ADDRESS_BYTES, "big") + bytes(TIMES_BYTES)
