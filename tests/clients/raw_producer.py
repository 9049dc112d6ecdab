"""A transactional producer that says exactly what a scenario wants, right or wrong, and answers with error codes.

Two generations of clients: `OLD` names partitions before it writes to them and keeps its epoch; `NEW` leaves that to
Produce and TxnOffsetCommit, and gets a new epoch at each end (KIP-890).
"""

import time
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from headwater.log.batch_format import TRANSACTIONAL_FLAG, encode_batch, flagged
from headwater.record import Record
from tests.waiting import LONG, Deadline
from tests.wire.group_requests import request
from tests.wire.raw_client import RawClient, read_response, request_frame
from tests.wire.requests import produce

OLD = {"init_producer_id": 4, "add_partitions_to_txn": 3, "produce": 11, "add_offsets_to_txn": 3,
       "txn_offset_commit": 4, "end_txn": 4}  # fmt: skip
NEW = {**OLD, "init_producer_id": 5, "produce": 12, "add_offsets_to_txn": 4, "txn_offset_commit": 5, "end_txn": 5}
GROUP_KEY, TRANSACTION_KEY = 0, 1
NOT_YET = ("coordinator_not_available", "coordinator_load_in_progress", "not_coordinator")
BUSY = ("concurrent_transactions", "not_enough_replicas")
"""The end of the transaction before is under way; every client asks again."""
PAUSE_SECONDS = 0.02
PATIENCE_SECONDS = 30


@dataclass
class RawProducer:
    client: RawClient
    transactional_id: str
    versions: dict[str, int]
    topic: str
    id: int = -1
    epoch: int = -1
    sequence: int = 0
    timeout_ms: int = 60_000
    sent: list[bytes] = field(default_factory=list)

    def twin(self, **changed: Any) -> "RawProducer":
        """One that believes the same, or something else."""
        return replace(self, sent=[], **changed)

    def init(self, *, expected: bool = False) -> str:
        """Register; with `expected`, as one that goes on."""
        self.find_coordinator(self.transactional_id, TRANSACTION_KEY)
        answer = self._ask(
            "init_producer_id", transactional_id=self.transactional_id,
            transaction_timeout=timedelta(milliseconds=self.timeout_ms),
            producer_id=self.id if expected else -1, producer_epoch=self.epoch if expected else -1,
        )  # fmt: skip
        if answer.error_code == 0:
            self.id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0
        return name_of(answer.error_code)

    def add(self, topic: str | None = None) -> str:
        answer = self._ask(
            "add_partitions_to_txn", v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.id, v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[{"name": topic or self.topic, "partitions": (0,)}],
        )  # fmt: skip
        return name_of(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

    def produce(self, value: bytes = b"v", *, transactional: bool = True, named: bool = True) -> str:
        batch = encode_batch(
            [Record(value, timestamp_ms=int(time.time() * 1000))], producer_id=self.id, producer_epoch=self.epoch,
            base_sequence=self.sequence,
        )  # fmt: skip
        self.sent.append(bytes(flagged(batch, TRANSACTIONAL_FLAG) if transactional else batch))
        code = self.produce_again(named=named)
        self.sequence += code == "none"
        return code

    def produce_again(self, *, named: bool = True) -> str:
        """The last batch once more."""
        said = produce(
            self.topic, self.sent[-1], version=self.versions["produce"],
            transactional_id=self.transactional_id if named else None,
        )  # fmt: skip

        def code() -> str:
            return name_of(self._call(said).responses[0].partition_responses[0].error_code)

        return unless_busy(code)

    def add_offsets(self, group: str) -> str:
        self.find_coordinator(group, GROUP_KEY)
        answer = self._ask(
            "add_offsets_to_txn", transactional_id=self.transactional_id, producer_id=self.id,
            producer_epoch=self.epoch, group_id=group,
        )  # fmt: skip
        return name_of(answer.error_code)

    def commit_offsets(self, group: str, offset: int, *, generation: int = -1, member: str = "") -> str:
        self.find_coordinator(group, GROUP_KEY)
        rows = [{"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}]
        answer = self._ask(
            "txn_offset_commit", transactional_id=self.transactional_id, group_id=group, producer_id=self.id,
            producer_epoch=self.epoch, generation_id=generation, member_id=member, group_instance_id=None,
            topics=[{"name": self.topic, "partitions": rows}],
        )  # fmt: skip
        return name_of(answer.topics[0].partitions[0].error_code)

    def end(self, *, commit: bool) -> str:
        answer = self._ask(
            "end_txn", transactional_id=self.transactional_id, producer_id=self.id, producer_epoch=self.epoch,
            committed=commit,
        )  # fmt: skip
        if answer.error_code == 0 and self.versions["end_txn"] >= 5:
            self.sequence = 0 if answer.producer_epoch != self.epoch else self.sequence
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return name_of(answer.error_code)

    def commit(self) -> str:
        return self.end(commit=True)

    def abort(self) -> str:
        return self.end(commit=False)

    def state(self) -> str:
        answer = self._call(request("describe_transactions", 0, transactional_ids=[self.transactional_id]))
        found = answer.transaction_states[0]
        return str(found.transaction_state) if found.error_code == 0 else name_of(found.error_code)

    def state_once_ended(self, *, seconds: float = LONG) -> str:
        """Markers may be written after the answer."""
        deadline = Deadline(seconds)
        while (state := self.state()) in ("Ongoing", "PrepareCommit", "PrepareAbort") and not deadline.passed:
            time.sleep(PAUSE_SECONDS)
        return state

    def find_coordinator(self, key: str, kind: int) -> None:
        """Brokers make the topics that coordinators need when they are first asked for one."""
        said = request("find_coordinator", 4, key_type=kind, coordinator_keys=(key,), key="")

        def code() -> str:
            return name_of(self._call(said).coordinators[0].error_code)

        unless_busy(code)

    def _ask(self, api: str, **fields: Any) -> Any:
        said = request(api, self.versions[api], **fields)
        answers = []

        def code() -> str:
            answers.append(self._call(said))
            return name_of(code_of(answers[-1]))

        unless_busy(code)
        return answers[-1]

    def _call(self, said: Any) -> Any:
        self.client.send(request_frame(said, 7))
        frame = self.client.receive_frame()
        assert frame, f"the connection was closed on {said}"
        return read_response(frame, said.__api_key__, said.__version__)


def unless_busy(code: Any) -> str:
    """As clients do: what says "not yet" is asked again."""
    deadline = Deadline(PATIENCE_SECONDS)
    while (answer := code()) in (*NOT_YET, *BUSY) and not deadline.passed:
        time.sleep(PAUSE_SECONDS)
    return str(answer)


def code_of(answer: Any) -> Any:
    for path in (
        lambda: answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
        lambda: answer.topics[0].partitions[0].error_code,
        lambda: answer.error_code,
    ):
        try:
            return path()
        except (AttributeError, IndexError):
            continue
    raise AssertionError(f"no code in {answer}")


def name_of(code: Any) -> str:
    return str(getattr(code, "name", code))
