"""Messages of pgoutput into changes, in commit order, each with its position. Pure.

A plain transaction arrives whole, in order, after its commit: its changes pass at once. A streamed one arrives in
pieces before its commit, and a prepared one waits for its COMMIT PREPARED: both are kept until their end is known. We
never ask the server to stream or to send prepared transactions early (its own spill files do that better than ours
would), but a publication read by hand is decoded rightly all the same.
"""

from collections.abc import Callable, Iterable, Mapping
from json import dumps
from typing import NamedTuple

from headwater.capture.change import (
    BEGIN,
    CREATE,
    DELETE,
    END,
    RECORDS_PER_CHANGE,
    TRUNCATE,
    UPDATE,
    CapturedTable,
    Change,
    Row,
    SourcePosition,
    TransactionOrder,
)
from headwater.capture.postgresql.pgoutput import (
    Begin,
    BeginPrepare,
    Cells,
    Commit,
    CommitPrepared,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    Origin,
    Prepare,
    Relation,
    RollbackPrepared,
    StreamAbort,
    StreamCommit,
    StreamPrepare,
    StreamStart,
    StreamStop,
    Truncate,
    Type,
    Update,
)
from headwater.capture.postgresql.tables import Plan
from headwater.errors import UndecodableChange

SOURCE_HEAD = b'{%b,"ts_ms":%d,"ts_us":%d,"ts_ns":%d,%b,"txId":%b,"xmin":null'
SOURCE_TAIL = b'%b,"sequence":"[\\"%d\\",\\"%d\\"]","lsn":%d}'
"""The block `source`: what a table has in common within a transaction, and after it what each change has."""

SHORT = {b"I": CREATE, b"U": UPDATE}
NEW_ROW = b"N"

Planner = Callable[[Relation], Plan | None]
"""What to do with the rows of a relation; None for one that is not captured."""


def generation_base(generation: int) -> int:
    """What is added to commit addresses: those of a later generation lie after all of an earlier one.

    >>> generation_base(0), generation_base(1) > 0xFFFF_FFFF_FFFF_FFFF
    (0, True)
    """
    return generation << 64


class Transaction(NamedTuple):
    id: int
    commit: int
    time_us: int


class SourceBlock:
    """The block `source` of envelopes: all but the address is the same for a table within a transaction."""

    def __init__(self, *, capture: str, database: str, version: str) -> None:
        self._fixed = _fields({"version": version, "connector": "postgresql", "name": capture, "db": database})
        self._for: tuple[Transaction | None, str] = (None, "")
        self._tables: dict[CapturedTable, bytes] = {}

    def of(self, table: CapturedTable, transaction: Transaction, address: int, *, snapshot: str = "false") -> bytes:
        if self._for != (transaction, snapshot):
            self._for, self._tables = (transaction, snapshot), {}
        head = self._tables.get(table)
        if head is None:
            head = self._tables[table] = self._head(table, transaction, snapshot)
        return SOURCE_TAIL % (head, transaction.commit, address, address)

    def fixed(self, table: CapturedTable, *, snapshot: str = "false") -> tuple[bytes, bytes]:
        """What is the same for all transactions: what fills SOURCE_HEAD before and after its times."""
        return self._fixed, _fields({"snapshot": snapshot, "schema": table.schema, "table": table.name})

    def _head(self, table: CapturedTable, transaction: Transaction, snapshot: str) -> bytes:
        (capture, named), time_us = self.fixed(table, snapshot=snapshot), transaction.time_us
        id = b"%d" % transaction.id if transaction.id else b"null"
        return SOURCE_HEAD % (capture, time_us // 1000, time_us, time_us * 1000, named, id)


def _fields(block: dict[str, str]) -> bytes:
    return dumps(block, ensure_ascii=False, separators=(",", ":")).encode()[1:-1]


class Accounts:
    """The contents of transactions, written to a topic of their own, so that a consumer can apply it as one."""

    def __init__(self, topic: str) -> None:
        self.table = CapturedTable("", "transaction", topic, ("id",), (0,))
        self._id, self._total = "", 0
        self._tables: dict[str, int] = {}

    def begin(self, transaction: Transaction) -> None:
        self._id, self._total, self._tables = f"{transaction.id}:{transaction.commit}", 0, {}

    @property
    def empty(self) -> bool:
        return self._total == 0

    def order(self, table: CapturedTable, *, events: int) -> TransactionOrder:
        before = self._tables.get(table.full_name, 0)
        found = TransactionOrder(self._id, self._total + 1, before + 1)
        self._total += events
        self._tables[table.full_name] = before + events
        return found

    def boundary(self, status: str, commit: int, time_ms: int) -> Change:
        counts = [{"data_collection": table, "event_count": count} for table, count in self._tables.items()]
        said = {
            "status": status,
            "id": self._id,
            "event_count": self._total if status == END else None,
            "data_collections": counts if status == END else None,
            "ts_ms": time_ms,
        }
        value = dumps(said, ensure_ascii=False, separators=(",", ":")).encode()
        position = SourcePosition(commit, int(status == END), 0)
        return Change(self.table, status, position, value, None, [dumps(self._id).encode()], time_ms)


class Passing(NamedTuple):
    """The position of an assembler among the messages: the state from which it can continue."""

    transaction: Transaction | None
    address: int
    number: int
    end: int


class Assembler:
    """Takes messages one by one; `changes` fills, and the caller empties it."""

    def __init__(
        self, planner: Planner, source: SourceBlock, *, generation: int = 0, accounts: Accounts | None = None
    ) -> None:
        self._planner, self._source, self._base = planner, source, generation_base(generation)
        self._accounts = accounts
        self._plans: dict[int, Plan | None] = {}
        self._transaction: Transaction | None = None
        self._time_ms = 0
        self._address, self._number = -1, -RECORDS_PER_CHANGE
        self._streams: dict[int, list[tuple[int, int, Message]]] = {}  # of each: address, subtransaction, message
        self._stream: int | None = None
        self._preparing: tuple[int, list[tuple[int, int, Message]]] | None = None
        self._prepared: dict[str, list[tuple[int, int, Message]]] = {}
        self.changes: list[Change] = []
        self.marks: list[LogicalMessage] = []
        self.committed: list[int] = []
        """Transactions whose end has passed since this was last emptied."""

        self.described = 0
        """How many descriptions of tables have passed: `plans` are the same as long as this is."""

        self.end = 0
        """The address after the last transaction that has passed as a whole."""

    @property
    def inside(self) -> bool:
        """Whether a transaction has begun to pass and not ended: nothing after `end` may be confirmed."""
        return self._transaction is not None

    @property
    def transaction(self) -> Transaction | None:
        return self._transaction

    @property
    def plans(self) -> Mapping[int, Plan | None]:
        return self._plans

    @property
    def base(self) -> int:
        """The offset that is added to commit addresses."""
        return self._base

    @property
    def source(self) -> SourceBlock:
        return self._source

    def passing(self) -> Passing | None:
        """None while messages do not pass at once, or each has to be counted: then they must be taken one by one."""
        if self._stream is not None or self._preparing is not None or self._accounts is not None:
            return None
        return Passing(self._transaction, self._address, self._number, self.end)

    def continue_after(self, passing: Passing, committed: Iterable[int]) -> None:
        """Continues after messages that the compiled loops have taken; `committed` are the transactions that ended."""
        self._transaction, self._address, self._number, self.end = passing
        self._time_ms = 0 if self._transaction is None else self._transaction.time_us // 1000
        self.committed.extend(committed)

    def at(self, passing: Passing, plans: Mapping[int, Plan | None]) -> "Assembler":
        """Another one, which stands where this one stood then, and knows the tables as they were then."""
        other = Assembler(self._planner, self._source)
        other._base, other._plans = self._base, dict(plans)
        other.continue_after(passing, ())
        return other

    def take_row(self, address: int, message: bytes) -> bool:
        """The short way, not decoded first, for what comes most: a whole row that was inserted or updated, in a
        transaction that passes as one. Whether it was taken; what is not has to go the way of all others."""
        operation = SHORT.get(message[:1])
        if operation is None or self._transaction is None or message[5:6] != NEW_ROW:
            return False
        if self._stream is not None or self._preparing is not None:
            return False
        plan = self._plans.get(int.from_bytes(message[1:5], "big"))
        row = None if plan is None else plan.read(message, 6)
        if plan is None or row is None:
            return False
        self._add(plan, operation, address, None, row)
        return True

    def take(self, address: int, message: Message) -> None:
        if self._stream is not None and not isinstance(message, StreamStop):
            subtransaction = getattr(message, "transaction", 0)
            self._streams[self._stream].append((address, subtransaction, message))
        elif self._preparing is not None and not isinstance(message, Prepare):
            self._preparing[1].append((address, 0, message))
        else:
            self._pass(address, message)

    def _pass(self, address: int, message: Message) -> None:
        match message:
            case Insert():
                self._insert(address, message)
            case Update():
                self._update(address, message)
            case Delete():
                self._delete(address, message)
            case Begin(commit, time_us, id):
                self._begin(Transaction(id, commit, time_us))
            case Commit(_, end, _):
                self._end(end)
            case Relation():
                self._plans[message.id] = self._planner(message)
                self.described += 1
            case Truncate(relations):
                self._truncate(address, relations)
            case LogicalMessage():
                self.marks.append(message)
            case Type() | Origin():
                pass
            case _:
                self._pass_later(message)

    def _pass_later(self, message: Message) -> None:
        """Handles the begin and end of transactions that are streamed in parts."""
        match message:
            case StreamStart(id):
                self._stream = id
                self._streams.setdefault(id, [])
            case StreamStop():
                self._stream = None
            case StreamAbort(id, subtransaction):
                self._abort(id, subtransaction)
            case StreamCommit(id, commit, end, time_us):
                self._replay(self._streams.pop(id, []), Transaction(id, commit, time_us), end)
            case StreamPrepare(_, end, _, id, name):
                self._prepared[name] = self._streams.pop(id, [])
            case BeginPrepare(_, _, _, id, _):
                self._preparing = (id, [])
            case Prepare(_, end, _, _, name):
                if self._preparing is None:
                    raise UndecodableChange(f"transaction {name} was prepared without having begun")
                self._prepared[name], self._preparing = self._preparing[1], None
            case CommitPrepared(commit, end, time_us, id, name):
                self._replay(self._prepared.pop(name, []), Transaction(id, commit, time_us), end)
            case RollbackPrepared(_, _, _, _, _, name):
                self._prepared.pop(name, None)

    def _abort(self, id: int, subtransaction: int) -> None:
        if id == subtransaction:
            self._streams.pop(id, None)
        elif id in self._streams:
            self._streams[id] = [
                kept for kept in self._streams[id] if kept[1] != subtransaction or isinstance(kept[2], Relation)
            ]

    def _replay(self, messages: list[tuple[int, int, Message]], transaction: Transaction, end: int) -> None:
        self._begin(transaction)
        for address, _, message in messages:
            self._pass(address, message)
        self._end(end)

    # -- within a transaction ----------------------------------------------------------------------------------------

    def _begin(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._time_ms = transaction.time_us // 1000
        self._address = -1
        if self._accounts is not None:
            self._accounts.begin(transaction)

    def _end(self, end: int) -> None:
        if self._transaction is not None:
            self.committed.append(self._transaction.id)
            if self._accounts is not None and not self._accounts.empty:
                self._tell(END, self._transaction.commit)
        self._transaction = None
        self.end = end

    def _plan(self, relation: int) -> Plan | None:
        try:
            return self._plans[relation]
        except KeyError:
            raise UndecodableChange(f"a change of relation {relation} came before its description") from None

    def _add(self, plan: Plan, operation: str, address: int, before: Row | None, after: Row | None) -> None:
        transaction = self._transaction
        if transaction is None:
            raise UndecodableChange("a change came outside of a transaction")
        if address == self._address:
            self._number += RECORDS_PER_CHANGE
        else:
            self._address, self._number = address, 0
        position = SourcePosition(self._base + transaction.commit, address, self._number)
        source = self._source.of(plan.table, transaction, address)
        order = None if self._accounts is None else self._order(plan, transaction, before, after)
        self.changes.append(Change(plan.table, operation, position, source, before, after, self._time_ms, order=order))

    def _order(
        self, plan: Plan, transaction: Transaction, before: Row | None, after: Row | None
    ) -> TransactionOrder | None:
        if self._accounts is None:
            return None
        if self._accounts.empty:
            self._tell(BEGIN, transaction.commit)
        # A row that has come from one key to another is the end of the one and the beginning of the other.
        moved = before is not None and after is not None and any(before[one] != after[one] for one in plan.table.key)
        return self._accounts.order(plan.table, events=1 + moved)

    def _tell(self, status: str, commit: int) -> None:
        if self._accounts is not None:
            self.changes.append(self._accounts.boundary(status, self._base + commit, self._time_ms))

    def _add_key_text(self, plan: Plan, cells: Cells) -> None:
        """Where a large value is left out, and the topic should not have it either, its row can be asked for."""
        key = [cells[index] for index in plan.table.key]
        if key and all(isinstance(cell, bytes) for cell in key):
            self.changes[-1].key_text = tuple(cell.decode() for cell in key if isinstance(cell, bytes))

    def _insert(self, address: int, message: Insert) -> None:
        if (plan := self._plan(message.relation)) is not None:
            self._add(plan, CREATE, address, None, plan.row(message.new))

    def _update(self, address: int, message: Update) -> None:
        if (plan := self._plan(message.relation)) is None:
            return
        before, after = None, plan.row(message.new)
        if message.old is not None:
            before = self._old(plan, message.old, message.whole)
            if message.whole:
                after = [old if new is None else new for old, new in zip(before, after, strict=True)]
        self._add(plan, UPDATE, address, before, after)
        if None in after:
            self._add_key_text(plan, message.new)

    def _delete(self, address: int, message: Delete) -> None:
        if (plan := self._plan(message.relation)) is not None:
            self._add(plan, DELETE, address, self._old(plan, message.old, message.whole), None)

    def _old(self, plan: Plan, cells: Cells, whole: bool) -> Row:
        return plan.row(cells) if whole else plan.key_row(cells)

    def _truncate(self, address: int, relations: tuple[int, ...]) -> None:
        for index, relation in enumerate(relations):
            # Numbered by its index in the statement, whichever of the tables are captured today.
            self._address, self._number = address, RECORDS_PER_CHANGE * (index - 1)
            if (plan := self._plan(relation)) is not None:
                self._add(plan, TRUNCATE, address, None, None)
