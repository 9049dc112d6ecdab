"""The state machine of a transaction: everything that can move one stands in NEXT and nowhere else. Pure.

         add                commit                 written
    Empty ───► Ongoing ─┬──────────► PrepareCommit ────────► CompleteCommit
      ▲                 │ abort                    written
      │                 └──────────► PrepareAbort  ────────► CompleteAbort
      └── init, from any state but Prepare…; add leads from Complete… to Ongoing again

A transaction is decided when its Prepare… state is durable: from then on a restart writes the markers that are missing.

Clients come in two versions. One of the newer (KIP-890) gets a new epoch at each end, so that its epoch says whether it
repeats an end whose answer it missed (`again`) or ends another transaction. An older one can only be taken at its word.
"""

from enum import StrEnum


class State(StrEnum):
    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"

    @property
    def decided(self) -> bool:
        """Markers are to be written."""
        return self in (State.PREPARE_COMMIT, State.PREPARE_ABORT)


class Event(StrEnum):
    INIT = "a producer registers"
    ADD = "a partition is added"
    COMMIT = "commit"
    ABORT = "abort"
    COMMIT_AGAIN = "commit, with the epoch before the last end"
    ABORT_AGAIN = "abort, with the epoch before the last end"
    OLD_COMMIT = "commit by a client that keeps its epoch"
    OLD_ABORT = "abort by a client that keeps its epoch"
    WRITTEN = "all markers are durable"


class Answer(StrEnum):
    """What a client is told where its request moves nothing."""

    DONE = "this has been done before"
    WAIT = "the transaction before is still being ended"
    INVALID = "this cannot follow"
    FENCED = "a newer producer has taken over"
    ABORT_FIRST = "what the producer before left open is aborted first"


_ONGOING, _COMMITTING, _ABORTING = State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT
_DONE, _WAIT, _INVALID, _FENCED = Answer.DONE, Answer.WAIT, Answer.INVALID, Answer.FENCED

# A newer client may abort what it never began: it wants a new epoch, after a request of which it does not know the end.
_ROWS: dict[Event, tuple[State | Answer, ...]] = {
    # from:              Empty         Ongoing             PrepareCommit  PrepareAbort  CompleteCommit  CompleteAbort
    Event.INIT:         (State.EMPTY,  Answer.ABORT_FIRST, _WAIT,         _WAIT,        State.EMPTY,    State.EMPTY),
    Event.ADD:          (_ONGOING,     _ONGOING,           _WAIT,         _WAIT,        _ONGOING,       _ONGOING),
    Event.COMMIT:       (_INVALID,     _COMMITTING,        _WAIT,         _INVALID,     _INVALID,       _INVALID),
    Event.ABORT:        (_ABORTING,    _ABORTING,          _INVALID,      _WAIT,        _ABORTING,      _ABORTING),
    Event.COMMIT_AGAIN: (_FENCED,      _FENCED,            _WAIT,         _INVALID,     _DONE,          _INVALID),
    Event.ABORT_AGAIN:  (_FENCED,      _FENCED,            _INVALID,      _WAIT,        _INVALID,       _DONE),
    Event.OLD_COMMIT:   (_INVALID,     _COMMITTING,        _WAIT,         _INVALID,     _DONE,          _INVALID),
    Event.OLD_ABORT:    (_INVALID,     _ABORTING,          _INVALID,      _WAIT,        _INVALID,       _DONE),
    Event.WRITTEN:      (_INVALID, _INVALID, State.COMPLETE_COMMIT, State.COMPLETE_ABORT, _INVALID, _INVALID),
}  # fmt: skip

NEXT: dict[tuple[State, Event], State | Answer] = {
    (state, event): outcome for event, row in _ROWS.items() for state, outcome in zip(State, row, strict=True)
}
