import json
from collections.abc import Iterator
from contextlib import closing

import pytest

from headwater import Node, Record
from headwater.cli.observer import Observer
from headwater.clock import ManualClock
from headwater.flow.commit.accounts import Account
from headwater.flow.commit.job_folder import BatchRecord, JobFolder
from headwater.flow.kafka.client import Client
from headwater.flow.plan.watermarks import Clocks
from headwater.record import TopicPartition
from tests.cli.conftest import Terminal
from tests.flow.job.kept_jobs import kept_job


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def observer(terminal: Terminal, node: Node, clock: ManualClock) -> Iterator[Observer]:
    node.log.create_topic("orders", partitions=2)
    with closing(Observer(node.kafka_address, terminal.data, local=True, clock=clock)) as observer:
        yield observer


def append(node: Node, count: int, topic: str = "orders") -> None:
    node.log.append(topic, [Record(b"%d" % number) for number in range(count)])


def test_topics_are_seen_with_their_records_and_bytes(observer: Observer, node: Node) -> None:
    append(node, 5)
    (topic,) = observer.look().topics
    assert (topic.name, topic.partitions, topic.records) == ("orders", 2, 5)
    assert topic.bytes


def test_rates_are_those_since_the_frame_before(observer: Observer, node: Node, clock: ManualClock) -> None:
    append(node, 5)
    assert observer.look().topics[0].per_second is None
    append(node, 30)
    clock.advance(2000)
    assert observer.look().topics[0].per_second == 15
    clock.advance(1000)
    assert observer.look().topics[0].per_second == 0


def test_the_bytes_of_a_log_that_lies_elsewhere_are_not_known(terminal: Terminal, node: Node) -> None:
    node.log.create_topic("orders")
    with closing(Observer(node.kafka_address, terminal.data, local=False, clock=ManualClock())) as observer:
        assert observer.look().topics[0].bytes is None


def test_groups_are_seen_with_their_lag(observer: Observer, node: Node) -> None:
    append(node, 5)
    with Client(node.kafka_address) as client:
        client.commit_offsets("warehouse", {TopicPartition("orders", 0): 0})
        ends = client.offsets({TopicPartition("orders", 0): -1})
    (group,) = observer.look().groups
    assert (group.name, group.members, group.lag) == ("warehouse", 0, ends[TopicPartition("orders", 0)])


def test_jobs_are_seen_with_what_they_did_and_what_is_left(
    observer: Observer, terminal: Terminal, node: Node, clock: ManualClock
) -> None:
    append(node, 50)
    job = kept_job(terminal.data)
    node.log.create_topic("shop.accounts")
    for batch in (0, 1):
        account = Account(rows_in=10, rows_out=8, filtered=2)
        said = {"job": "orders", "output": "counts", "batch": batch, "end": {}, **account.to_json()}
        node.log.append("shop.accounts", [Record(json.dumps(said).encode())])
    last = job.last_batch()
    assert last is not None
    clock.wall_ms = last.finished_ms + 3000
    (seen,) = observer.look().jobs
    assert (seen.name, seen.batch, seen.since_ms, seen.running) == ("shop.orders", 1, 3000, False)
    assert seen.state_bytes > 0
    assert seen.per_second == 10 / last.seconds
    (output,) = seen.outputs
    assert (output.name, output.total.rows_in, output.last.rows_in) == ("counts", 20, 10)


def test_the_lag_of_a_job_counts_partitions_it_has_not_seen_yet(
    observer: Observer, terminal: Terminal, node: Node
) -> None:
    append(node, 50)
    kept_job(terminal.data)  # which has read partition 0 up to offset 20
    with Client(node.kafka_address) as client:
        ends = client.offsets({TopicPartition("orders", number): -1 for number in range(2)})
    first, second = ends.values()
    assert observer.look().jobs[0].lag == max(0, first - 20) + second


def test_how_far_a_job_is_in_time_and_whom_it_does_not_wait_for_is_seen(observer: Observer, terminal: Terminal) -> None:
    job = kept_job(terminal.data)
    clocks = Clocks({"orders": {0: 90_000_000, 1: 30_000_000}}, {"orders": {0: 90_000, 1: 30_000}})
    idle = frozenset({TopicPartition("orders", 1)})
    last = BatchRecord(1, {}, {"orders": {0: 20}}, {"counts": Account()}, clocks, 60_000_000, idle)
    JobFolder(job.path).finish(last)
    (seen,) = observer.look().jobs
    assert (seen.watermark_us, seen.behind_us, seen.idle) == (60_000_000, 30_000_000, ("orders/1",))


def test_a_job_whose_folder_is_locked_runs(observer: Observer, terminal: Terminal) -> None:
    folder = JobFolder(kept_job(terminal.data).path)
    folder.lock()
    assert observer.look().jobs[0].running
    folder.unlock()
    assert not observer.look().jobs[0].running


def test_a_job_that_has_not_finished_a_batch_is_seen_without_figures(observer: Observer, terminal: Terminal) -> None:
    job = kept_job(terminal.data)
    for file in (job.path / "batches").glob("*"):
        file.unlink()
    (seen,) = observer.look().jobs
    assert (seen.batch, seen.lag, seen.since_ms, seen.per_second, seen.outputs) == (None, None, None, None, ())
