"""Settings: one frozen value per part. Units stand last in a name; durations in public are timedelta."""

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

NODE_FILE = "node.json"
"""In the data directory of a running node: where it can be reached."""

START_FAILED_FILE = "start-failed.json"
"""Beside it, if the last "headwater start" on the data directory failed: why, and when."""

LOCAL_TOKEN_FILE = "local.token"
"""Beside it, readable by its owner alone: what programs of this machine say to the HTTP port of the node."""


def milliseconds(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """How one data directory is kept. Settings of a single topic live in log/topic_settings.py."""

    producer_expiry: timedelta = timedelta(days=1)
    """How long an idempotent producer that sends nothing is remembered, in time the process ran."""

    maintenance_interval: timedelta = timedelta(seconds=15)
    """How often retention, compaction and archiving look for work."""

    unflushed_bytes_max: int = 64 * 1024**2
    """Written but unsynced bytes of a partition that start a background sync: a crash leaves little to re-read."""

    compaction_memory_bytes: int = 128 * 1024**2
    """Memory for the map of keys of one compaction; more distinct keys than fit are compacted in several passes."""

    decompressed_bytes_max: int = 128 * 1024**2
    """A batch that unpacks to more than this is read by nothing, and accepted by no topic whatever its settings say."""

    archive_url: str = ""
    """Where topics with remote.storage.enable keep sealed segments: any fsspec URL; "" is archive/ in the data."""

    topic_defaults: tuple[tuple[str, str], ...] = ()
    """Configuration that new and old topics have unless they say otherwise."""

    offsets_partitions: int = 8
    """Partitions of the topic that keeps committed group offsets."""

    transactions_partitions: int = 8
    """Partitions of the topic that keeps the states of transactions."""

    queues_partitions: int = 4
    """Partitions of the topic that keeps the states of queues: one is synced for many acknowledgements."""

    transaction_timeout_max: timedelta = timedelta(minutes=15)
    """The longest time that a producer may ask for its transactions; what takes longer than it asked for is aborted."""

    transactional_id_expiry: timedelta = timedelta(days=7)
    """How long a transactional id that no producer uses is remembered, in time the process ran."""


@dataclass(frozen=True, kw_only=True)
class WireSettings:
    """The Kafka port."""

    host: str = "127.0.0.1"
    """Where the port listens."""

    port: int = 9092
    """0 takes any free port."""

    advertised_host: str = ""
    """The address that clients connect to, as the broker advertises it; "" is the address they used."""

    insecure_public_bind: bool = False
    """Allow an address that other machines can reach, although there is neither login nor encryption."""

    auto_create_topics: bool = True
    """Make a topic when a producer names one that does not exist."""

    auto_created_topics_per_minute_max: int = 100
    """Topics made so, at once and in a minute, by all clients; a client that names more gets them later."""

    auto_created_topics_max: int = 2_000
    """Once there are so many topics, none is made so any more."""

    default_partitions: int = 1
    """Partitions of a topic whose maker did not say how many."""

    node_id: int = 1
    """The broker id that clients see."""

    request_bytes_max: int = 100 * 1024**2
    """A request that says it is longer is refused before anything is read."""

    buffered_request_bytes_max: int = 256 * 1024**2
    """Bytes of requests being received, over all connections; those beyond it wait, and the slowest are cut off."""

    unsent_response_bytes_max: int = 128 * 1024**2
    """Bytes of responses that clients do not take, over all connections; beyond it, they are cut off, oldest first."""

    connections_max: int = 4096
    """Connections beyond it are closed at once."""

    connections_per_address_max: int = 2048
    """The same, for one client address."""

    requests_in_flight_max: int = 512
    """Requests of one connection that may be waiting for their answer; one sync of the disk can answer them all."""

    response_chunk_bytes: int = 128 * 1024
    """How much of a fetch response is held in memory for a client at a time; the rest stays in the file."""

    partial_request_timeout: timedelta = timedelta(seconds=30)
    """How long a request may take to arrive once it has begun."""

    stalled_client_timeout: timedelta = timedelta(seconds=120)
    """How long a client may leave its answer unread before it is cut off."""

    idle_connection_timeout: timedelta = timedelta(minutes=10)
    """How long a connection may stay silent."""

    fetch_wait_max: timedelta = timedelta(seconds=60)
    """How long a fetch waits for new records at most, whatever the client asks for."""

    group_session_timeout_min: timedelta = timedelta(seconds=1)
    """The shortest session timeout that a group member may ask for."""

    group_session_timeout_max: timedelta = timedelta(minutes=30)
    """The longest session timeout that a group member may ask for."""

    group_initial_delay: timedelta = timedelta(milliseconds=300)
    """How long a new group waits for more members before the first assignment."""

    group_consumer_session_timeout: timedelta = timedelta(seconds=45)
    """The session timeout of members of the consumer protocol, which is the group's affair there."""

    group_consumer_heartbeat_interval: timedelta = timedelta(seconds=5)
    """How often such members send a heartbeat."""

    group_members_max: int = 10_000
    """Members of one group; further ones are refused."""

    offsets_retention: timedelta = timedelta(days=7)
    """How long offsets of a group without members are kept, in time the process ran."""


@dataclass(frozen=True, kw_only=True)
class HttpSettings:
    """The HTTP port: the API, what is posted, the schema registry."""

    host: str = "127.0.0.1"
    """Where the port listens."""

    port: int = 8080
    """0 takes any free port."""

    port_may_differ: bool = False
    """Take any free port where the wanted one is in use."""

    insecure_public_bind: bool = False
    """Allow an address that other machines can reach, although there is neither login nor encryption."""

    allowed_hosts: tuple[str, ...] = ()
    """Names under which clients may reach the port, beside localhost and the address it listens on; with one, every
    client needs a token."""

    loopback_without_token: bool = False
    """Let programs of this machine in without a token even where tokens or public names exist. Not behind a proxy: what
    it passes on comes from this machine too."""

    request_bytes_max: int = 4 * 1024**2
    """A longer request is refused."""

    requests_bytes_max: int = 64 * 1024**2
    """What all requests that are being answered may hold together; one more is answered with 429."""

    request_timeout: timedelta = timedelta(seconds=30)
    """How long the head and the body of a request may take to arrive."""

    connections_max: int = 2048
    """Requests beyond so many connections are answered with 503."""

    position_wait_max: timedelta = timedelta(seconds=30)
    """How long a read waits for a position (at_least) at most, whatever the client asks for."""

    subscribers_max: int = 1024
    """Who may follow topics and views at once; one more is answered with 429."""

    stalled_subscriber_timeout: timedelta = timedelta(seconds=30)
    """How long a subscriber may leave what it was sent unread before it is hung up on; it can resume."""


@dataclass(frozen=True, kw_only=True)
class SecuritySettings:
    """Logins, encryption and permissions, of the Kafka port and the HTTP port."""

    mechanisms: tuple[str, ...] = ()
    """How clients of the Kafka port log in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER; () needs no login."""

    certificate: Path | None = None
    """PEM file with the certificate of this node and those between it and its authority; None: no encryption."""

    certificate_key: Path | None = None
    """PEM file with its private key; None: it is in the file of the certificate."""

    client_authority: Path | None = None
    """PEM file with the authorities whose client certificates are believed; None: clients show none."""

    client_certificate_required: bool = False
    """Hang up on clients of the Kafka port that show no certificate; without logins it says who they are."""

    principal_mapping: str = "DEFAULT"
    """How the name in a client's certificate becomes a user, in Kafka's notation of rules."""

    super_users: tuple[str, ...] = ()
    """Principals that may do everything, such as User:admin."""

    allowed_without_acl: bool = False
    """Let every user who has logged in use what no ACL is about."""

    session_lifetime_max: timedelta = timedelta(0)
    """How long a login counts before the client has to log in again on the same connection; 0 is for ever."""

    failed_login_delay: timedelta = timedelta(milliseconds=500)
    """How long a client waits for the answer to a failed login."""

    login_timeout: timedelta = timedelta(seconds=10)
    """How long a connection may take to encrypt and to log in."""

    unfinished_logins_max: int = 1024
    """Connections that have not logged in yet; beyond it, those that have taken longest are cut off."""

    login_request_bytes_max: int = 64 * 1024
    """A longer request is refused before the login."""

    oauth_keys: str = ""
    """Where the keys are that sign the tokens of OAUTHBEARER: a file or an https URL of a JWKS."""

    oauth_issuer: str = ""
    """Who must have issued a token; "" is anybody whose key is known."""

    oauth_audience: str = ""
    """For whom a token must be."""

    oauth_user_claim: str = "sub"
    """The claim of a token that names the user."""

    @property
    def encrypted(self) -> bool:
        return self.certificate is not None

    @property
    def demands_login(self) -> bool:
        """Is each request made by a client that is known?"""
        return bool(self.mechanisms) or (self.encrypted and self.client_certificate_required)

    @property
    def public_allowed(self) -> bool:
        """Is it safe to be reached by other machines?"""
        return self.encrypted and self.demands_login


@dataclass(frozen=True, kw_only=True)
class NodeSettings:
    """One running node."""

    log: LogSettings = field(default_factory=LogSettings)
    wire: WireSettings = field(default_factory=WireSettings)
    http: HttpSettings | None = None
    """None: no HTTP port."""

    security: SecuritySettings = field(default_factory=SecuritySettings)

    captures: bool = False
    """Run the captures that the data directory defines."""

    alerts: bool = False
    """Look after the alerts that apps declared in the data directory."""

    cluster: str = ""
    """Brokers of a Kafka cluster that captures and notifications are written to; "" is the log of the node."""

    views: str = ""
    """Where apps that name no store keep their views: sqlite, or postgresql, a server of the data directory's own that
    runs with the node; "" is what the data directory has."""
