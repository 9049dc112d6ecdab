"""The vocabulary in which every client library is spoken to.

A scenario of the suite is written once against `Client`; an adapter in `adapters/` translates it for one library. What
a library does not offer, its adapter does not define, and the scenarios that need it are not run for it:
`offers(adapter, "delete_records")` asks exactly that, so there is no table to keep.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple, NoReturn

from tests.clients.membership import Membership
from tests.clients.message import PLAINLY, Message, Producing, Receipt

if TYPE_CHECKING:
    from tests.clients.sharing import Sharing
    from tests.clients.transactional import Transactional

EARLIEST, LATEST = "earliest", "latest"

UNKNOWN_TOPIC = 3
OFFSET_OUT_OF_RANGE = 1
MESSAGE_TOO_LARGE = 10
INVALID_TOPIC = 17
TOPIC_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_REPLICATION_FACTOR = 38
INVALID_CONFIG = 40
GROUP_NOT_EMPTY = 68
UNKNOWN_GROUP = 69
SUBSCRIBED_TO_TOPIC = 86


class Refused(Exception):
    """The broker said no; `code` is the protocol's error code."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(f"error {code}: {message}")
        self.code = code


class ClusterDescription(NamedTuple):
    cluster_id: str
    controller: int
    nodes: list[str]


class GroupDescription(NamedTuple):
    state: str
    members: list[list[tuple[str, int]]]


class TopicDescription(NamedTuple):
    leaders: dict[int, int]
    replicas: dict[int, list[int]]
    in_sync: dict[int, list[int]]


def unoffered() -> NoReturn:
    raise NotImplementedError("this client does not offer it; ask offers() first")


class Client:
    """One client library. An adapter defines what its library offers; `features` names what is not a call.

    Features: `receipts` (a send reports its offset), `timestamps` (a send may name its time), `binary` (any bytes,
    null and empty distinguished, headers per message), `static` (static group membership), `cooperative` (incremental
    rebalance), `refusals` (a failed send reports its error code).
    """

    name: ClassVar[str]
    features: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def close(self) -> None:
        """Let go of connections and processes."""

    def sendable(self, messages: Sequence[Message]) -> list[Message]:
        """Those that this client is able to say."""
        return list(messages)

    def readable(self, messages: Sequence[Message]) -> list[Message]:
        """The same messages as this client is able to show them."""
        return list(messages)

    def produce(self, topic: str, messages: Sequence[Message], how: Producing = PLAINLY) -> list[Receipt]:
        """Send all, each to its partition, and wait for the answers. Raises Refused if one was refused."""
        unoffered()

    def fetch(self, topic: str, partition: int, offset: int, count: int, *, seconds: float = 20) -> list[Message]:
        """Read from an offset on, without a group, until `count` messages came. Fewer only after `seconds`."""
        unoffered()

    def read_as_group(self, topic: str, group: str, count: int) -> list[Message]:
        """Join the group as its only member, read from the committed offset or the earliest, commit, and leave."""
        unoffered()

    def offset_at(self, topic: str, partition: int, place: str | int) -> int | None:
        """The offset of EARLIEST, of LATEST, or of the first record at or after a time in milliseconds."""
        unoffered()

    def offset_of_newest(self, topic: str, partition: int) -> int | None:
        """The offset of the record with the largest timestamp."""
        unoffered()

    def topics(self) -> Mapping[str, int]:
        """Names and partition counts."""
        unoffered()

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None, *, validate_only: bool = False
    ) -> None:
        unoffered()

    def delete_topic(self, name: str) -> None:
        unoffered()

    def create_partitions(self, name: str, total: int) -> None:
        unoffered()

    def describe_topic(self, name: str) -> TopicDescription:
        unoffered()

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        """Delete what lies before an offset (-1: everything); answers the new first offset."""
        unoffered()

    def describe_configs(self, topic: str) -> Mapping[str, str | None]:
        unoffered()

    def alter_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        """Replace all overrides of a topic."""
        unoffered()

    def incremental_alter_configs(self, topic: str, changes: Sequence[tuple[str, str, str | None]]) -> None:
        """Apply (name, operation, value) with operations set, delete, append, subtract."""
        unoffered()

    def describe_node(self) -> Mapping[str, str | None]:
        """The configuration of the one broker."""
        unoffered()

    def describe_cluster(self) -> ClusterDescription:
        unoffered()

    def log_bytes(self, topic: str) -> Mapping[int, int]:
        """Size of each partition on disk, as DescribeLogDirs tells it."""
        unoffered()

    def groups(self) -> Sequence[str]:
        unoffered()

    def groups_in_state(self, state: str) -> Sequence[str]:
        """Names of the groups that are Stable, Empty, ..."""
        unoffered()

    def describe_group(self, group: str) -> GroupDescription:
        unoffered()

    def delete_group(self, group: str) -> None:
        unoffered()

    def remove_member(self, group: str, instance_id: str) -> None:
        """Take a static member out of its group."""
        unoffered()

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit offsets for a group that has no members."""
        unoffered()

    def committed(self, group: str, topic: str) -> Mapping[int, int]:
        """Committed offsets, partitions without one left out."""
        unoffered()

    def delete_offsets(self, group: str, topic: str, partitions: Sequence[int]) -> None:
        unoffered()

    def write_numbered(self, topic: str, partitions: int, count: int) -> None:
        """Write the first `count` values of every partition (numbered_values.py), as fast as it goes."""
        unoffered()

    def read_digests(self, topic: str, partitions: int, count: int) -> Mapping[int, str]:
        """Read `count` records of every partition from its start; the digest of each partition's values."""
        unoffered()

    def share_consumer(
        self, group: str, topic: str, *, explicit: bool = True, strict: bool = True, records_max: int = 500
    ) -> "Sharing":
        """A member of a share group. `explicit`: it acknowledges by itself, instead of by its next poll. `strict`: it
        is given no more messages than it may poll, although a batch has more."""
        unoffered()

    def transactional(self, transactional_id: str, *, timeout_s: float = 60) -> "Transactional":
        """A producer that is registered under the id."""
        unoffered()

    def read_to_end(self, topic: str, partition: int, *, committed: bool) -> list[bytes]:
        """All values from the first to the end, which for readers of committed records is the last stable offset."""
        unoffered()

    def wait_until_stable(self, topic: str, partition: int) -> None:
        """Until no transaction is open in the partition."""
        unoffered()

    def member_command(self, membership: Membership) -> list[str]:
        """The command line of a process that is a member of a group (membership.py)."""
        unoffered()


def offers(adapter: type[Client], *needs: str) -> bool:
    """Whether the adapter defines each method, and has each feature, that is needed."""
    return all(
        need in adapter.features or getattr(adapter, need, None) is not getattr(Client, need, None) for need in needs
    )
