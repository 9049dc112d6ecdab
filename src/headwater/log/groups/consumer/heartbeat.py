"""A member's heartbeat in the consumer protocol, its answer, and what may not be asked. Pure."""

from collections.abc import Collection
from typing import NamedTuple, Protocol

from headwater import errors
from headwater.log.groups.consumer.assignors import ASSIGNORS, Partitions, TopicInfo

JOINING = 0
LEAVING = -1
STATIC_LEAVING = -2
"""A static member leaves and will come back: it keeps what it has until its session ends."""


class Catalog(Protocol):
    """The topics there are, as far as the member may see them."""

    def find(self, name: str) -> TopicInfo | None: ...

    def names(self) -> frozenset[str]: ...

    def matching(self, pattern: str) -> frozenset[str]:
        """InvalidPattern if it is no regular expression."""
        ...


class Heartbeat(NamedTuple):
    """None: as in the heartbeat before."""

    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int | None = None
    topics: Collection[str] | None = None
    pattern: str | None = None
    """"" takes the pattern back."""
    assignor: str | None = None
    owned: Partitions | None = None
    client_id: str = ""
    client_host: str = ""

    @property
    def full(self) -> bool:
        """The member says everything: it has joined, or its connection was lost, and it wants a whole answer."""
        said = self.topics is not None or self.pattern is not None
        return self.epoch == JOINING or (self.rebalance_timeout_ms is not None and said and self.owned is not None)


class HeartbeatAnswer(NamedTuple):
    """The answer to a heartbeat."""

    member_id: str
    epoch: int
    assignment: Partitions | None
    """None: as in the answer before."""


def check_heartbeat(request: Heartbeat) -> None:
    """UsageError, UnsupportedAssignor."""
    if request.epoch < STATIC_LEAVING:
        raise errors.UsageError(f"{request.epoch} is no member epoch")
    for name, value in (("InstanceId", request.instance_id), ("RackId", request.rack_id)):
        if value is not None and not value.strip():
            raise errors.UsageError(f"{name} is empty")
    if not request.member_id:
        raise errors.UsageError("MemberId is empty")
    if request.epoch == STATIC_LEAVING and request.instance_id is None:
        raise errors.UsageError("a member without InstanceId cannot leave for a time")
    if request.epoch == JOINING:
        _check_joining(request)
    if request.assignor is not None and request.assignor not in ASSIGNORS:
        raise errors.UnsupportedAssignor(request.assignor, known=ASSIGNORS)


def _check_joining(request: Heartbeat) -> None:
    if request.rebalance_timeout_ms is None:
        raise errors.UsageError("RebalanceTimeoutMs is missing in the heartbeat that joins")
    if request.owned is None or request.owned:
        raise errors.UsageError("a member that joins owns no partitions: TopicPartitions has to be empty")
    if request.topics is None and request.pattern is None:
        raise errors.UsageError("the heartbeat that joins names neither topics nor a pattern of topics")
