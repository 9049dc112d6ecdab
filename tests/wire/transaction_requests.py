"""A producer with a transactional id that sends each of its requests by hand, in any version."""

from datetime import timedelta
from typing import Any

from headwater.log.batch_format import TRANSACTIONAL_FLAG, encode_batch, flagged
from headwater.log.partition import Partition
from headwater.record import Record
from tests.wire.group_requests import Caller
from tests.wire.raw_client import RawClient
from tests.wire.requests import produce

WRITTEN_MS = 1_700_000_000_000
SEVERAL_FROM = 4
"""The version of AddPartitionsToTxn from which on a request speaks for several producers."""

Places = dict[str, list[int]]


class Producer:
    """Registered when it is made; `identity` are the fields of its requests, which a test may change."""

    def __init__(self, client: RawClient, transactional_id: str = "payments") -> None:
        self._client, self._caller = client, Caller(client)
        answer = self._caller.ask(
            "init_producer_id", 4, transactional_id=transactional_id, transaction_timeout=timedelta(seconds=60)
        )
        assert answer.error_code.name == "none", answer
        self.transactional_id, self.id, self.epoch = transactional_id, answer.producer_id, answer.producer_epoch
        self._sequence = 0

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id, "producer_id": self.id, "producer_epoch": self.epoch,
        }  # fmt: skip

    def ask(self, name: str, version: int | None = None, **fields: Any) -> Any:
        return self._caller.ask(name, version, **{**self.identity, **fields})

    def add(self, places: Places, version: int = 3, *, verify_only: bool = False, **identity: Any) -> dict[Any, str]:
        """The name of the code for each partition."""
        topics = [{"name": topic, "partitions": numbers} for topic, numbers in places.items()]
        said = {**self.identity, **identity}
        if version < SEVERAL_FROM:
            older = {f"v3_and_below_{name}": value for name, value in said.items()}
            answer = self._caller.ask("add_partitions_to_txn", version, v3_and_below_topics=topics, **older)
            return codes_of(answer.results_by_topic_v3_and_below)
        one = {**said, "verify_only": verify_only, "topics": topics}
        answer = self._caller.ask("add_partitions_to_txn", version, transactions=[one])
        (result,) = answer.results_by_transaction
        assert (answer.error_code.name, result.transactional_id) == ("none", said["transactional_id"])
        return codes_of(result.topic_results)

    def write(self, value: bytes = b"paid", topic: str = "orders", partition: int = 0) -> str:
        """Produce a record within the transaction; the name of the code."""
        records = flagged(
            encode_batch(
                [Record(value, timestamp_ms=WRITTEN_MS)],
                producer_id=self.id, producer_epoch=self.epoch, base_sequence=self._sequence,
            ),
            TRANSACTIONAL_FLAG,
        )  # fmt: skip
        self._sequence += 1
        asked = produce(topic, bytes(records), first_partition=partition, transactional_id=self.transactional_id)
        (answer,) = self._client.call(asked).responses[0].partition_responses
        return str(answer.error_code.name)

    def begin(self, partition: int = 0) -> None:
        """Open a transaction with one record in it."""
        assert self.add({"orders": [partition]}) == {("orders", partition): "none"}
        assert self.write(partition=partition) == "none"

    def end(self, version: int = 4, *, commit: bool = True, **identity: Any) -> Any:
        return self.ask("end_txn", version, committed=commit, **identity)


def codes_of(topics: Any) -> dict[Any, str]:
    return {
        (topic.name, one.partition_index): one.partition_error_code.name
        for topic in topics
        for one in topic.results_by_partition
    }


def undecided(partition: Partition) -> int:
    """How many offsets readers of committed records do not see yet."""
    return partition.high_watermark - partition.last_stable_offset


def aborted(partition: Partition) -> int:
    """How many transactions were aborted."""
    return len(partition.aborted_between(0, partition.end_offset))
