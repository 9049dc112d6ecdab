"""Which Kafka error code says what one of our errors says.

A code is an instruction to the client: it decides between trying again, looking up the leader again, starting a new
producer epoch (and sending once more what was stored already) and giving up. A wrong one loses or doubles records.
"""

from kio.schema.errors import ErrorCode

from headwater import errors

CODES: dict[type[errors.HeadwaterError], ErrorCode] = {
    errors.UnknownTopic: ErrorCode.unknown_topic_or_partition,
    errors.UnknownPartition: ErrorCode.unknown_topic_or_partition,
    errors.InvalidTopicName: ErrorCode.invalid_topic_exception,
    errors.InvalidPartitions: ErrorCode.invalid_partitions,
    errors.InvalidSetting: ErrorCode.invalid_config,
    errors.OffsetOutOfRange: ErrorCode.offset_out_of_range,
    errors.InvalidRecord: ErrorCode.invalid_record,
    errors.CorruptBatch: ErrorCode.corrupt_message,
    errors.UnsupportedFormat: ErrorCode.unsupported_for_message_format,
    errors.BatchTooLarge: ErrorCode.message_too_large,
    errors.InvalidTimestamp: ErrorCode.invalid_timestamp,
    errors.InvalidGroup: ErrorCode.invalid_group_id,
    errors.OffsetMetadataTooLarge: ErrorCode.offset_metadata_too_large,
    errors.UnsafeBind: ErrorCode.invalid_request,
    errors.LoginRefused: ErrorCode.sasl_authentication_failed,
    errors.NotAllowed: ErrorCode.cluster_authorization_failed,
    errors.ConditionalAppendsOnly: ErrorCode.policy_violation,
    errors.Rejected: ErrorCode.invalid_request,
    errors.WrongVersion: ErrorCode.invalid_request,
    errors.UnexpectedEvent: ErrorCode.invalid_request,
    errors.UndecidedStream: ErrorCode.invalid_request,
    errors.EndOffsetMoved: ErrorCode.invalid_request,
    errors.TopicExists: ErrorCode.topic_already_exists,
    errors.DataDirectoryLocked: ErrorCode.kafka_storage_error,
    errors.PortUnavailable: ErrorCode.invalid_request,
    errors.OutOfOrderSequence: ErrorCode.out_of_order_sequence_number,
    errors.DuplicateSequence: ErrorCode.duplicate_sequence_number,
    errors.StaleProducerEpoch: ErrorCode.invalid_producer_epoch,
    errors.ProducerFenced: ErrorCode.producer_fenced,
    errors.InvalidProducerMapping: ErrorCode.invalid_producer_id_mapping,
    errors.InvalidTransactionState: ErrorCode.invalid_txn_state,
    errors.ConcurrentTransactions: ErrorCode.concurrent_transactions,
    errors.InvalidTransactionTimeout: ErrorCode.invalid_transaction_timeout,
    errors.UnknownTransaction: ErrorCode.transactional_id_not_found,
    errors.UnstableOffset: ErrorCode.unstable_offset_commit,
    errors.UnknownMember: ErrorCode.unknown_member_id,
    errors.FencedMember: ErrorCode.fenced_instance_id,
    errors.StaleGeneration: ErrorCode.illegal_generation,
    errors.FencedMemberEpoch: ErrorCode.fenced_member_epoch,
    errors.StaleMemberEpoch: ErrorCode.stale_member_epoch,
    errors.UnreleasedInstance: ErrorCode.unreleased_instance_id,
    errors.UnsupportedAssignor: ErrorCode.unsupported_assignor,
    errors.UnsupportedRequest: ErrorCode.unsupported_version,
    errors.InvalidPattern: ErrorCode.invalid_regular_expression,
    errors.RebalanceUnderWay: ErrorCode.rebalance_in_progress,
    errors.InconsistentProtocol: ErrorCode.inconsistent_group_protocol,
    errors.MemberIdRequired: ErrorCode.member_id_required,
    errors.InvalidSessionTimeout: ErrorCode.invalid_session_timeout,
    errors.GroupNotEmpty: ErrorCode.non_empty_group,
    errors.UnknownGroup: ErrorCode.group_id_not_found,
    errors.GroupFull: ErrorCode.group_max_size_reached,
    errors.SubscribedToTopic: ErrorCode.group_subscribed_to_topic,
    errors.UnknownQueue: ErrorCode.group_id_not_found,
    errors.NotAcquired: ErrorCode.invalid_record_state,
    # A blocking topic never gets here: its producer waits, and receives request_timed_out if it waited in vain.
    errors.TopicFull: ErrorCode.policy_violation,
    # Clients try again after this one, with the same sequence: nothing doubles, and service resumes by itself.
    errors.DiskFull: ErrorCode.kafka_storage_error,
    errors.PartitionOffline: ErrorCode.kafka_storage_error,
    errors.ReadFailed: ErrorCode.kafka_storage_error,
    errors.DamagedFile: ErrorCode.kafka_storage_error,
    errors.TopicOffline: ErrorCode.kafka_storage_error,
    errors.DamagedRange: ErrorCode.corrupt_message,
    errors.ArchiveUnavailable: ErrorCode.kafka_storage_error,
    errors.LogClosed: ErrorCode.not_leader_or_follower,
    errors.ProtocolError: ErrorCode.invalid_request,
}

BRANCHES: dict[type[errors.HeadwaterError], ErrorCode] = {
    errors.UsageError: ErrorCode.invalid_request,
    errors.ConflictError: ErrorCode.invalid_request,
    errors.UnavailableError: ErrorCode.kafka_storage_error,
}
"""For an error that is nothing more special than its branch of the tree."""


def error_code(error: errors.HeadwaterError) -> ErrorCode:
    """The code of the nearest kind of error that has one.

    >>> error_code(errors.UnknownTopic("orders")).name
    'unknown_topic_or_partition'
    """
    for kind in type(error).__mro__:
        code = CODES.get(kind) or BRANCHES.get(kind)
        if code is not None:
            return code
    return ErrorCode.unknown_server_error
