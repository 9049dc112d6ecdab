"""ListTransactions: transactional ids by state, by producer, or by how long their transaction has been open."""

from typing import Any

from kio.schema.errors import ErrorCode

from headwater.errors import HeadwaterError
from headwater.log.transactions.lifecycle import State
from headwater.wire.context import Context
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.protocol.group_error_codes import group_error_code

STATES = frozenset(state.value for state in State)
KAFKAS = STATES | {"Dead", "PrepareEpochFence"}
"""States that Kafka has, too; nothing is ever in one of ours' others."""


async def handle(request: Any, context: Context) -> Fields:
    try:
        known = context.log.transactions.all()
    except HeadwaterError as error:
        return Fields(
            throttle_time=UNTHROTTLED, error_code=group_error_code(error), unknown_state_filters=(),
            transaction_states=(),
        )  # fmt: skip
    states, producers = set(request.state_filters), set(request.producer_id_filters)
    open_ms_min = getattr(request, "duration_filter", -1)
    found = [
        Fields(
            transactional_id=one.transactional_id, producer_id=one.producer_id, transaction_state=one.state.value
        )
        for one, open_ms in known
        if (not states or one.state.value in states)
        and (not producers or one.producer_id in producers)
        and (open_ms_min < 0 or open_ms > open_ms_min)
    ]  # fmt: skip
    return Fields(
        throttle_time=UNTHROTTLED, error_code=ErrorCode.none,
        unknown_state_filters=tuple(sorted(states - KAFKAS)), transaction_states=tuple(found),
    )  # fmt: skip
