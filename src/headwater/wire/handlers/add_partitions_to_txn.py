"""AddPartitionsToTxn: the partitions that a producer is about to write to in its transaction.

Up to version 3 a producer asks for itself. From version 4 on brokers ask, for several producers at once, and may want
to know only whether the partitions are part of the transaction.
"""

from collections.abc import Collection, Iterable
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.errors import HeadwaterError, InvalidTransactionState
from headwater.log.log import Log
from headwater.log.transactions.transaction import NEWER_CLIENTS, ProducerIdentity
from headwater.record import TopicPartition
from headwater.wire.context import Context
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.protocol.transaction_codes import transaction_code
from headwater.wire.topics import RESERVED_TOPICS, code_for

FENCED_KNOWN_FROM = 2
SEVERAL_SINCE = 4
NEWER_CLIENTS_FROM = 5


async def handle(request: Any, context: Context) -> Fields:
    version = NEWER_CLIENTS if context.api_version >= NEWER_CLIENTS_FROM else 0
    fenced_known = context.api_version >= FENCED_KNOWN_FROM
    if context.api_version < SEVERAL_SINCE:
        producer = ProducerIdentity(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        topics = request.v3_and_below_topics
        answer = _Adding(context.log, request.v3_and_below_transactional_id, producer, version)
        code = await context.run(answer.add, _places(topics), fenced_known=fenced_known)
        return Fields(throttle_time=UNTHROTTLED, results_by_topic_v3_and_below=answer.topics(topics, code))
    results = []
    for one in request.transactions:
        producer = ProducerIdentity(one.producer_id, one.producer_epoch)
        answer = _Adding(context.log, one.transactional_id, producer, version)
        do = answer.verify if one.verify_only else answer.add
        code = await context.run(do, _places(one.topics), fenced_known=fenced_known)
        results.append(Fields(transactional_id=one.transactional_id, topic_results=answer.topics(one.topics, code)))
    return Fields(
        throttle_time=UNTHROTTLED, error_code=ErrorCode.none, results_by_transaction=tuple(results)
    )  # fmt: skip


def _places(topics: Iterable[Any]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for topic in topics for number in topic.partitions]


class _Adding:
    """All of a transaction's partitions are added, or none; `verify` says of each whether it was."""

    def __init__(self, log: Log, transactional_id: str, producer: ProducerIdentity, version: int) -> None:
        self._log, self._id, self._producer, self._version = log, transactional_id, producer, version
        self._wrong: dict[TopicPartition, ErrorCode] = {}

    def add(self, places: Collection[TopicPartition], *, fenced_known: bool) -> ErrorCode:
        refused = self._refused(places)
        if refused is not ErrorCode.none:
            return refused
        try:
            self._log.transactions.add(self._id, self._producer, set(places), version=self._version)
        except HeadwaterError as error:
            return transaction_code(error, fenced_known=fenced_known)
        return ErrorCode.none

    def verify(self, places: Collection[TopicPartition], *, fenced_known: bool) -> ErrorCode:
        refused = self._refused(places)
        if refused is not ErrorCode.none:
            return refused
        for place in places:
            try:
                with self._log.transactions.appending(self._id, self._producer, place):
                    continue
            except InvalidTransactionState:
                self._wrong[place] = ErrorCode.transaction_abortable
            except HeadwaterError as error:
                self._wrong[place] = transaction_code(error, fenced_known=fenced_known)
        return ErrorCode.none

    def _refused(self, places: Collection[TopicPartition]) -> ErrorCode:
        """The code of partitions that are not to blame, if another one is."""
        for place in places:
            try:
                # The code of Kafka, after which a producer can abort its transaction and continue.
                if place.topic in RESERVED_TOPICS:
                    self._wrong[place] = ErrorCode.topic_authorization_failed
                else:
                    self._log.partition(*place)
            except HeadwaterError as error:
                self._wrong[place] = code_for(error, place.topic)
        return ErrorCode.operation_not_attempted if self._wrong else ErrorCode.none

    def topics(self, topics: Iterable[Any], code: ErrorCode) -> tuple[Fields, ...]:
        return tuple(
            Fields(
                name=topic.name,
                results_by_partition=tuple(
                    Fields(
                        partition_index=number,
                        partition_error_code=self._wrong.get(TopicPartition(topic.name, number), code),
                    )
                    for number in topic.partitions
                ),
            )
            for topic in topics
        )
