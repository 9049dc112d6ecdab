"""Click-through: searches with the clicks of the hour behind them, one in a hundred rows up to an hour late.

Rows come in the order of arrival; most are up to a minute out of order, which lateness allows for. Stragglers are
within the corrections: what was emitted of a search without a click is taken back when one comes. In the end the table
holds exactly the pairs that the events make, and exactly the searches that nobody has clicked on.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import headwater as hw
from headwater.flow.kafka.client import Client
from headwater.flow.run.app_tester import AppTester
from headwater.flow.state.runs.hash_search import expanded
from headwater.record import TopicPartition
from headwater.testing import running_app
from tests.flow.large_joins.timeline import Outcome
from tests.flow.large_joins.topics import Advance, Numbers, instants, joined, produce, text

BEGIN_MS = 1_767_225_600_000
A_SECOND = 100
"""Rows of both kinds."""
HOUR_MS = 3_600_000
DISORDER_MS = 60_000
STRAGGLERS = 0.01
PARTITIONS = 2
ROWS_PER_BATCH = 250_000
NOBODY = -1


@dataclass(frozen=True)
class Side:
    """Events in the order in which they come."""

    ids: Numbers
    sessions: Numbers
    times_ms: Numbers
    arrived_ms: Numbers


def declare() -> hw.App:
    app = hw.App("pages", shards=2)
    searches = app.stream("searches", "id long, session long, at timestamp", time="at", lateness="2 minutes")
    clicks = app.stream("clicks", "click long, session long, clicked timestamp", time="clicked", lateness="2 minutes")
    joined = searches.join(clicks, on="session", within="1 hour", how="left", corrections="70 minutes", name="clicked")
    app.view(key=["left_row", "right_row"], name="clicked")(lambda: joined)
    return app


def make(rows: int, seed: int) -> tuple[Side, Side]:
    """Six in ten are searches. A session has a few of both, so that some searches have several clicks and many none."""
    random = np.random.default_rng(seed)
    counts = rows - rows * 4 // 10, rows * 4 // 10
    sides = []
    for count in counts:
        arrived = np.sort(random.integers(0, rows * 1000 // A_SECOND, count))
        delays = random.integers(0, DISORDER_MS, count)
        late = random.random(count) < STRAGGLERS
        delays[late] = random.integers(DISORDER_MS, HOUR_MS, int(late.sum()))
        # Sessions come and go: those of an hour are not those of the next.
        sessions = (arrived - delays) // HOUR_MS * rows + random.integers(0, max(rows // 10, 1), count)
        sides.append(Side(np.arange(count), sessions, BEGIN_MS + arrived - delays, BEGIN_MS + arrived))
    return sides[0], sides[1]


def pairs_of(searches: Side, clicks: Side) -> Numbers:
    """Searches and clicks that meet, and searches alone; sorted."""
    order = np.lexsort([clicks.times_ms, clicks.sessions])
    _, sessions = np.unique(np.concatenate([searches.sessions, clicks.sessions]), return_inverse=True)
    ours, theirs = sessions[: len(searches.ids)], sessions[len(searches.ids) :][order]
    span = int(max(searches.times_ms.max(), clicks.times_ms.max())) + 2 * HOUR_MS
    places = theirs * span + clicks.times_ms[order]
    first = np.searchsorted(places, ours * span + searches.times_ms, side="left")
    end = np.searchsorted(places, ours * span + searches.times_ms + HOUR_MS, side="right")
    met = np.stack([np.repeat(searches.ids, end - first), clicks.ids[order][expanded(first, end - first)]], axis=1)
    alone = searches.ids[end == first]
    return in_order(np.concatenate([met, np.stack([alone, np.full(len(alone), NOBODY)], axis=1)]))


def in_order(pairs: Numbers) -> Numbers:
    return pairs[np.lexsort([pairs[:, 1], pairs[:, 0]])]


def run(rows: int, seed: int, folder: Path, *, fed: Advance, processed: Advance) -> Outcome:
    outcome, (searches, clicks) = Outcome(), make(rows, seed)
    with running_app(declare(), folder / "data", spark=True) as tester:
        with Client(tester.node.kafka_address) as client:
            _feed(client, "searches", ("id", "at"), searches, fed)
            _feed(client, "clicks", ("click", "clicked"), clicks, fed)
        began = time.perf_counter()
        for account in tester.run(rows_per_batch=ROWS_PER_BATCH):
            processed(account.rows_in)
        seconds = time.perf_counter() - began
        wanted = pairs_of(searches, clicks)
        outcome.anomalies = wrong_in(tester, wanted, rows)
        outcome.figures = {
            "pairs": int((wanted[:, 1] != NOBODY).sum()), "unclicked": int((wanted[:, 1] == NOBODY).sum()),
            "seconds": round(seconds, 1), "rows a second": round(rows / seconds),
        }  # fmt: skip
    return outcome


def _feed(client: Client, topic: str, names: tuple[str, str], side: Side, fed: Advance) -> None:
    """Spread to the partitions one by one; the last row of each lets time go on for all before it."""
    client.create_topic(topic, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        own = slice(partition, None, PARTITIONS)
        place = TopicPartition(topic, partition)
        values = _texts(names, side.ids[own], side.sessions[own], side.times_ms[own])
        produce(client, place, None, values, side.arrived_ms[own], fed)
        end = np.array([int(side.arrived_ms.max()) + 24 * HOUR_MS])
        produce(client, place, None, _texts(names, np.array([NOBODY]), np.array([NOBODY]), end), end, lambda rows: None)


def _texts(names: tuple[str, str], ids: Numbers, sessions: Numbers, times_ms: Numbers) -> pa.Array:
    pieces: list[Any] = [f'{{"{names[0]}": ', text(ids), ', "session": ', text(sessions), f', "{names[1]}": "']
    return joined(*pieces, instants(times_ms), '"}')


def wrong_in(tester: AppTester, wanted: Numbers, rows: int) -> list[str]:
    with tester.view("clicked") as view:
        emitted = [(row["id"], NOBODY if row["click"] is None else row["click"]) for row in view.rows()]
    # The rows at the end meet each other: they are of one session, at one time.
    held = in_order(np.array([pair for pair in emitted if pair[0] != NOBODY], np.int64).reshape(-1, 2))
    found = differences(held, wanted)
    account = tester.account("clicked")
    ends = 2 * PARTITIONS
    if not account.balanced or account.rows_in != rows + ends or account.late:
        found.append(f"the account is {account}; {rows:,} rows were fed, and {ends} at the end")
    return found


def differences(held: Numbers, wanted: Numbers) -> list[str]:
    if np.array_equal(held, wanted):
        return []
    more, less = ({(int(one), int(other)) for one, other in pairs} for pairs in (held, wanted))
    return [
        f"{len(more - less):,} results should not be there, such as {sorted(more - less)[:3]}, and "
        f"{len(less - more):,} are missing, such as {sorted(less - more)[:3]}"
    ]
