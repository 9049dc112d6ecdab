"""DescribeTransactions: the state of transactional ids, and the partitions of what is open."""

from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.errors import HeadwaterError
from headwater.log.transactions.transaction import Transaction
from headwater.wire.context import Context
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.protocol.group_error_codes import group_error_code


async def handle(request: Any, context: Context) -> Fields:
    states = []
    for transactional_id in request.transactional_ids:
        try:
            states.append(_state(context.log.transactions.describe(transactional_id)))
        except HeadwaterError as error:
            code = group_error_code(error) if transactional_id else ErrorCode.invalid_request
            nothing = Transaction(transactional_id=transactional_id, producer_id=-1, timeout_ms=0)
            states.append(_state(nothing, code))
    return Fields(throttle_time=UNTHROTTLED, transaction_states=tuple(states))


def _state(one: Transaction, code: ErrorCode = ErrorCode.none) -> Fields:
    rows = groupby(sorted(one.partitions), lambda place: place.topic)
    return Fields(
        error_code=code,
        transactional_id=one.transactional_id,
        transaction_state="" if code is not ErrorCode.none else one.state.value,
        transaction_timeout=timedelta(milliseconds=one.timeout_ms),
        transaction_start_time=datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=one.started_ms),
        producer_id=one.producer_id,
        producer_epoch=one.epoch,
        topics=tuple(Fields(topic=topic, partitions=tuple(place.partition for place in row)) for topic, row in rows),
    )
