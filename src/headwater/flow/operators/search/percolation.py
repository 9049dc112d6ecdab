"""Documents met by stored queries: kinds of join of a stream with a table whose partners the index of queries finds.

As it is: the queries are those that are stored after the changes of the batch. As of a time: a document waits until
the watermark has passed its time, and meets the versions of queries that held then; all rules for versions are those of
the as-of join (operators/joins/as_of.py).

Documents are spread over the shards by where they lie in the log. Queries are kept in the shard of their key, and read
by all tasks; their changes go to every shard, and only the shard of the key writes them.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit

from headwater.flow.operators.joins.as_of import GONE, SEEN, UNTIL, AsOfJoin
from headwater.flow.operators.joins.events import (
    CONTENT,
    FAR_US,
    LEFT_AT,
    MISSING,
    POSITION,
    RIGHT_AT,
    EventRows,
    Given,
    Shard,
    StreamStep,
    arrived,
    kept,
    result_schema,
    results,
    scanned,
    together,
    written,
)
from headwater.flow.operators.joins.latest import LatestJoin
from headwater.flow.operators.joins.pairing import Pairing
from headwater.flow.operators.joins.tables import touched_rows, untouched_rows, write_touched
from headwater.flow.operators.search.fields import Fields
from headwater.flow.operators.search.highlighting import highlights
from headwater.flow.operators.search.index import NO_QUERY, Matched
from headwater.flow.operators.search.stored import Indexed, indexed
from headwater.flow.operators.spark_hashes import can_hash, xxhash64
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.operators.windows.grouping import grouped
from headwater.flow.state.manifest import HASH
from headwater.flow.state.runs.equality import Integers, as_mask
from headwater.flow.state.runs.hash_search import expanded
from headwater.flow.state.shard import shard_of

SCORE, HIGHLIGHTS, EXPLANATION = "score", "highlights", "explanation"
CLAUSE = pa.struct([("clause", pa.string()), ("frequency", pa.float64()), ("score", pa.float64())])
SCORE_DIGITS = 9
"""Behind the point: sums of scores may be taken in another order."""
NO_SCHEMA = pa.schema([])
NOTED_MAX = 20
"""Sentences about stored queries that a batch reports of a shard."""


@dataclass(frozen=True)
class Search:
    """What queries may ask of documents, and what is reported of a hit."""

    fields: Fields
    query: str
    """The column of the stored rows that has their query."""
    default: str = "OR"
    highlight: bool = False
    explain: bool = False

    @property
    def hit_schema(self) -> pa.Schema:
        """Columns of a hit beside those of the document and the stored row."""
        columns = [(SCORE, pa.float64())]
        columns += [(HIGHLIGHTS, pa.list_(pa.string()))] if self.highlight else []
        columns += [(EXPLANATION, pa.list_(CLAUSE))] if self.explain else []
        return pa.schema(columns)


NO_SEARCH = Search(Fields((), NO_SCHEMA), "")


@dataclass(frozen=True)
class HitPairing(Pairing):
    """Pairs with what is reported of the hit after their columns."""

    hit_schema: pa.Schema = NO_SCHEMA

    @property
    def columns(self) -> pa.Schema:
        return pa.schema([*self.plain.columns, *self.hit_schema])

    @property
    def plain(self) -> Pairing:
        return Pairing(
            self.left, self.right, self.on, self.how, self.further, self.prefix, self.shared, self.under
        )  # fmt: skip


class Hits(NamedTuple):
    """Places of documents and of stored rows that meet; and of each which match of document and query it is."""

    documents: Integers
    rows: Integers
    matches: Integers
    matched: Matched


def _of_shard(rows: pa.RecordBatch | None, shard: Shard, part: str) -> pa.RecordBatch | None:
    """What a shard writes of the changes that all of them are given."""
    if rows is None:
        return None
    owners = shard_of(rows.column(HASH).to_numpy(), shard.handles[part].shards)
    return rows.filter(pa.array(owners == shard.number))


@dataclass(frozen=True)
class Percolation(LatestJoin):
    """`events` are the documents, `table` the stored queries, by their key."""

    search: Search = NO_SEARCH
    may_miss = False

    def step(self, shard: Shard, given: Given, clock: WindowClock) -> StreamStep:
        documents, own = arrived(self.events, given[0]), _of_shard(given[1], shard, "right")
        state = shard.rows("right")
        run = write_touched(self.table, state, touched_rows(self.table, own))
        known = indexed(shard.handles, "right", self.search.fields, self.search.default, self.search.query)
        with known.lock:
            notes = _noted(self, known, self._now(own), self.table.key)
            after = self._hits(shard, documents, given[1], known)
        return StreamStep(after.slice(0, 0), after, {"right": [run] if run else []}, notes)

    def _now(self, rows: pa.RecordBatch | None) -> pa.RecordBatch | None:
        if rows is None:
            return None
        touched = touched_rows(self.table, rows)
        return touched.rows.take(pa.array(touched.after[touched.after >= 0]))

    def _hits(
        self, shard: Shard, documents: EventRows, changes: pa.RecordBatch | None, known: Indexed
    ) -> pa.RecordBatch:
        if not documents.rows.num_rows:
            return _results(self, documents, _no_rows(self.pairing), None, known)
        touched = touched_rows(self.table, changes)
        stored = known.stored(shard, "right")
        rows = stored.rows.select(self.table.columns.names)
        slots = stored.slots
        if len(touched.hashes):
            still = untouched_rows(self.table, touched, stored.rows)
            now = touched.rows.take(pa.array(touched.after[touched.after >= 0]))
            rows = pa.concat_batches([_as(rows.filter(pa.array(still)), now.schema), now])
            slots = np.append(slots[still], known.slots(now))
        hits = hits_of(known, documents, slots)
        return _results(self, documents, rows, hits, known)


@dataclass(frozen=True)
class AsOfPercolation(AsOfJoin):
    """`events` are the documents, `versions` those of the stored queries."""

    search: Search = NO_SEARCH
    may_miss = False

    def accepted(self, given: Given, clock: WindowClock) -> int:
        """Versions were sent to every shard, and count in that of their key; that is for `step` to say."""
        return 0 if given[0] is None else given[0].num_rows

    def step(self, shard: Shard, given: Given, clock: WindowClock) -> StreamStep:
        state, old = shard.events("left"), shard.rows("versions")
        documents, own = arrived(self.events, given[0]), _of_shard(given[1], shard, "versions")
        ours, fresh = self._fresh(own, clock), self._fresh(given[1], clock)
        waiting = scanned(self.events, state, clock.passed_before_us, clock.passed_us)
        due = together([documents.filter(documents.times < clock.passed_us), waiting])
        history = self._history(old, ours.hashes[:0], ours.keys(self.versions).slice(0, 0), ours)
        run = self._versions_written(old, history, clock)
        later = documents.filter(documents.times >= clock.passed_us)
        runs = {
            "left": written(self.events, state, later, arrived(self.events, None)),
            "versions": [run] if run else [],
        }
        known = indexed(shard.handles, "versions", self.search.fields, self.search.default, self.search.query)
        with known.lock:
            notes = _noted(self, known, _there(ours), self.versions.on)
            after = self._hits(shard, due, fresh, known)
        counted = 0 if own is None else AsOfJoin.accepted(self, (None, own), clock)
        return StreamStep(after.slice(0, 0), after, runs, notes, counted)

    def _hits(self, shard: Shard, due: EventRows, fresh: EventRows, known: Indexed) -> pa.RecordBatch:
        if not due.rows.num_rows:
            return _results(self, due, _no_rows(self.pairing), None, known)
        stored = known.stored(shard, "versions")
        versions = together([kept(self.versions, stored.rows), fresh])
        slots = np.append(stored.slots, known.slots(fresh.rows))
        since, until = self._held(versions)
        hits = hits_of(known, due, np.where(since < until, slots, NO_QUERY))
        times = due.times[hits.documents]
        holds = (since[hits.rows] <= times) & (times < until[hits.rows])
        chosen = Hits(hits.documents[holds], hits.rows[holds], hits.matches[holds], hits.matched)
        return _results(self, due, versions.rows.select(self.pairing.right.names), chosen, known)

    def _held(self, versions: EventRows) -> tuple[Integers, Integers]:
        """From when and until when each version holds."""
        extra = {name: versions.rows.column(name) for name in (GONE, UNTIL, SEEN)}
        seen = versions.times if self.dated else np.maximum(versions.times, extra[SEEN].to_numpy())
        order, firsts = grouped(
            [versions.hashes], versions.keys(self.versions), [versions.position.column(name).to_numpy()
                                                              for name in POSITION],
        )  # fmt: skip
        until = np.empty(len(order), np.int64)
        until[order] = _replaced(np.cumsum(firsts), seen[order])
        ends = np.minimum(until, extra[UNTIL].fill_null(FAR_US).to_numpy())
        gone = as_mask(extra[GONE].fill_null(False))
        return seen, np.where(gone, -FAR_US, ends)


@njit(cache=True, nogil=True)
def _replaced(groups, seen):  # type: ignore[no-untyped-def]
    """When the first of the versions behind each one of its key begins to count."""
    until = np.empty(len(seen), np.int64)
    least = FAR_US
    for place in range(len(seen) - 1, -1, -1):
        if place + 1 == len(seen) or groups[place] != groups[place + 1]:
            least = FAR_US
        until[place] = least
        least = min(least, seen[place])
    return until


def _there(versions: EventRows) -> pa.RecordBatch:
    return versions.rows.filter(pa.array(~as_mask(versions.rows.column(GONE).fill_null(False))))


def _as(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(rows.columns, schema=schema)


def _no_rows(pairing: Pairing) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], pairing.right)


def hits_of(known: Indexed, documents: EventRows, slots: Integers) -> Hits:
    """Documents and stored rows whose query, by its number in the index, matches; in the order of documents."""
    matched = known.index.match(documents.rows.select(known.index.fields.needed), known.index.alive(slots))
    order = np.argsort(slots, kind="stable")
    wanted = matched.found.queries
    begins = np.searchsorted(slots[order], wanted, side="left")
    lengths = np.searchsorted(slots[order], wanted, side="right") - begins
    matches = np.repeat(np.arange(len(wanted)), lengths)
    return Hits(matched.found.documents[matches], order[expanded(begins, lengths)], matches, matched)


def _results(
    join: "Percolation | AsOfPercolation", documents: EventRows, rows: pa.RecordBatch, hits: Hits | None, known: Indexed
) -> pa.RecordBatch:
    """Hits as results of a join. What distinguishes those of one document is a hash of the stored row."""
    assert isinstance(join.pairing, HitPairing)
    nowhere = np.empty(0, np.int64)
    at = (nowhere, nowhere) if hits is None else (hits.documents, hits.rows)
    made = results(join.pairing.plain, documents, rows, *at)
    reported = _reported(join.search, documents, hits, known)
    columns = {name: made.column(name) for name in join.pairing.plain.columns.names}
    columns |= dict(zip(join.pairing.hit_schema.names, reported, strict=True))
    columns |= {LEFT_AT + name: made.column(LEFT_AT + name) for name in POSITION}
    columns |= {RIGHT_AT + name: made.column(RIGHT_AT + name) for name in POSITION}
    columns[RIGHT_AT + CONTENT] = pa.array(_row_hashes(rows)[at[1]])
    columns[MISSING] = made.column(MISSING)
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=result_schema(join.pairing))


def _row_hashes(rows: pa.RecordBatch) -> Integers:
    return xxhash64([one for one in rows.columns if can_hash(one.type)], rows.num_rows)


def _reported(search: Search, documents: EventRows, hits: Hits | None, known: Indexed) -> list[pa.Array]:
    if hits is None:
        return [pa.nulls(0, one.type) for one in search.hit_schema]
    reported = [pa.array(np.round(hits.matched.found.scores[hits.matches], SCORE_DIGITS))]
    if search.highlight:
        reported.append(highlights(known.index, documents.rows, hits.matched).take(pa.array(hits.matches)))
    if search.explain:
        reported.append(_explained(known, hits.matched).take(pa.array(hits.matches)))
    return reported


def _explained(known: Indexed, matched: Matched) -> pa.Array:
    """Of each match the clauses that hold."""
    found = known.index.reasons(matched, np.ones(known.index.size, np.bool_))
    ends = np.searchsorted(found.pairs, np.arange(len(matched.found.queries) + 1))
    texts = pa.array([known.index.leaf_texts[leaf] for leaf in found.leaves.tolist()], pa.string())
    clauses = pa.StructArray.from_arrays(
        [texts, pa.array(found.frequencies), pa.array(found.scores)], fields=list(CLAUSE)
    )
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), clauses)


def _noted(
    join: "Percolation | AsOfPercolation", known: Indexed, rows: pa.RecordBatch | None, key: tuple[str, ...]
) -> tuple[str, ...]:
    """What is to be said of stored queries that came: those that cannot be run, and those that always are."""
    if rows is None or not rows.num_rows:
        return ()
    slots = known.slots(rows)
    always = set(known.index.always.tolist())
    said = []
    for place in np.flatnonzero(np.isin(slots, [*known.index.mistakes, *always])).tolist():
        slot = int(slots[place])
        name = ", ".join(f"{one} = {rows.column(one)[place].as_py()}" for one in key)
        if slot in known.index.mistakes:
            said.append(f"the stored query of {name} cannot be run, and matches nothing: {known.index.mistakes[slot]}")
        else:
            said.append(f"the stored query of {name} is run for every document: it has no word that one must have")
    more = len(said) - NOTED_MAX
    return (*said[:NOTED_MAX], *([f"and {more:,} more stored queries"] if more > 0 else []))
