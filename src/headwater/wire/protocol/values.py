"""Values that many responses share."""

from datetime import timedelta

from kio.static.primitive import i32, i32Timedelta

NO_THROTTLE = i32Timedelta.parse(timedelta(0))

# Access-control operations, by Kafka's numbers. There are no ACLs yet: everything is allowed.
_CREATE, _READ, _WRITE, _DELETE, _ALTER, _DESCRIBE = 5, 3, 4, 6, 7, 8
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = 9, 10, 11, 12


def _bits(*operations: int) -> i32:
    return i32(sum(1 << operation for operation in operations))


NOT_ASKED = i32(-(2**31))
TOPIC_OPERATIONS = _bits(_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)
CLUSTER_OPERATIONS = _bits(
    _CREATE, _ALTER, _DESCRIBE, _CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE
)
