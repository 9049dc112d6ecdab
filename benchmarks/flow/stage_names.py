"""The stages of a flow, and the processes that run it."""

READ, DECODE, PREPARE, SHUFFLE, OPERATE, STATE, EMIT = STAGES = (
    "read", "decode", "prepare", "shuffle", "operate", "state", "emit",
)  # fmt: skip
REST = "rest"
JVM, WORKERS, DRIVER = "JVM", "workers", "driver"
