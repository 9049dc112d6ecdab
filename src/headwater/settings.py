"""Settings: one frozen value per part. Units stand last in a name; durations in public are timedelta."""

from dataclasses import dataclass, field
from datetime import timedelta


def milliseconds(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """How one data directory is kept. Settings of a single topic live in log/topic_settings.py."""

    producer_expiry: timedelta = timedelta(days=1)
    """How long an idempotent producer that sends nothing is remembered, in time the process ran."""

    checkpoint_interval: timedelta = timedelta(seconds=30)
    """How often recovery points are written: bounds what is re-read after a crash."""

    maintenance_interval: timedelta = timedelta(seconds=15)
    """How often retention, compaction and archiving look for work."""

    unflushed_bytes_max: int = 64 * 1024**2
    """Written but not yet synced bytes of a partition that start a background sync, so that a crash leaves little to re-read."""

    compaction_memory_bytes: int = 128 * 1024**2
    """Memory for the map of keys of one compaction; more distinct keys than fit are compacted in several passes."""

    decompressed_bytes_max: int = 128 * 1024**2
    """A batch that unpacks to more than this is refused, wherever a batch is unpacked."""

    archive_url: str = ""
    """Where topics with remote.storage.enable keep sealed segments (any fsspec URL); "" is the folder archive/ of the data directory."""

    topic_defaults: tuple[tuple[str, str], ...] = ()
    """Configuration that new and old topics have unless they say otherwise."""

    offsets_partitions: int = 8
    """Partitions of the topic that keeps committed group offsets."""


@dataclass(frozen=True, kw_only=True)
class WireSettings:
    """The Kafka port."""

    host: str = "127.0.0.1"
    port: int = 9092
    advertised_host: str = ""
    """Where clients are told to connect; "" is the address they used."""

    insecure_public_bind: bool = False
    auto_create_topics: bool = True
    default_partitions: int = 1
    node_id: int = 1

    request_bytes_max: int = 100 * 1024**2
    buffered_request_bytes_max: int = 256 * 1024**2
    """Bytes of requests being received, over all connections; connections beyond it wait."""

    connections_max: int = 4096
    connections_per_address_max: int = 2048
    requests_in_flight_max: int = 16
    """Requests of one connection that may be waiting for their answer."""

    response_chunk_bytes: int = 128 * 1024
    """How much of a fetch response is held in memory for a client at a time; the rest stays in the file."""

    partial_request_timeout: timedelta = timedelta(seconds=30)
    stalled_client_timeout: timedelta = timedelta(seconds=120)
    idle_connection_timeout: timedelta = timedelta(minutes=10)
    fetch_wait_max: timedelta = timedelta(seconds=60)

    group_session_timeout_min: timedelta = timedelta(seconds=1)
    group_session_timeout_max: timedelta = timedelta(minutes=30)
    group_initial_delay: timedelta = timedelta(milliseconds=300)
    """How long a new group waits for more members before the first assignment."""

    group_members_max: int = 10_000
    offsets_retention: timedelta = timedelta(days=7)
    """How long offsets of a group without members are kept, in time the process ran."""


@dataclass(frozen=True, kw_only=True)
class NodeSettings:
    """One running node."""

    log: LogSettings = field(default_factory=LogSettings)
    wire: WireSettings = field(default_factory=WireSettings)
