"""Error codes of the transaction APIs, which depend on what a version of an API knows to say."""

from kio.schema.errors import ErrorCode

from headwater.errors import ConcurrentTransactions, HeadwaterError, InvalidTransactionState, ProducerFenced
from headwater.wire.protocol.error_codes import error_code
from headwater.wire.protocol.group_error_codes import group_error_code

PRODUCE_ABORTABLE_FROM = 11
PRODUCE_BEGINS_FROM = 12
"""From this version on, Produce makes a partition part of the transaction by itself."""


def transaction_code(error: HeadwaterError | None, *, fenced_known: bool) -> ErrorCode:
    """Of a request to the coordinator; `fenced_known`: the version can say that a producer is fenced."""
    if isinstance(error, ProducerFenced) and not fenced_known:
        return ErrorCode.invalid_producer_epoch
    return group_error_code(error)


def produce_code(error: HeadwaterError, version: int) -> ErrorCode:
    """Of a batch that the coordinator does not let into a transaction.

    >>> produce_code(ConcurrentTransactions("payments"), 11).retriable
    True
    """
    if isinstance(error, ProducerFenced):
        return ErrorCode.invalid_producer_epoch
    if isinstance(error, ConcurrentTransactions) and version < PRODUCE_BEGINS_FROM:
        return ErrorCode.not_enough_replicas  # older producers try again only after a code that they know
    if isinstance(error, InvalidTransactionState) and version >= PRODUCE_ABORTABLE_FROM:
        return ErrorCode.transaction_abortable
    return error_code(error)
