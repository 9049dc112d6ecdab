"""The way of one member from what it has to what the target assignment gives to it (KIP-848). Pure.

A partition is given to a member only when no other owns it, and taken from a member only when the member has shown that
it gave it up. So a partition never has two owners.
"""

from collections.abc import Callable
from typing import NamedTuple

from headwater.log.groups.consumer.assignors import PartitionId, Partitions
from headwater.log.groups.consumer.states import NEXT_STATE, Event, MemberState


class Share(NamedTuple):
    """What a member has: its epoch, and the partitions that are its own."""

    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Partitions = frozenset()
    revoking: Partitions = frozenset()
    """Partitions it was asked to give up, and has not."""

    @property
    def held(self) -> Partitions:
        """Partitions that no other member may have."""
        return self.assigned | self.revoking


def reconciled(
    share: Share,
    *,
    target: Partitions,
    target_epoch: int,
    owned: Partitions | None,
    held_by_others: Callable[[PartitionId], bool],
) -> Share:
    """The share after a heartbeat in which the member reported that it owns `owned`; None: it did not say."""
    epoch = share.epoch
    if share.state is MemberState.STABLE and share.epoch == target_epoch and share.assigned == target:
        return share
    if share.state is MemberState.UNREVOKED:
        if owned is None or owned & share.revoking:
            return share
        epoch += 1
    kept = share.assigned & target
    revoking = share.assigned - kept
    if revoking and (owned is None or owned & revoking):
        return _moved(share, Event.REVOCATION_ASKED, epoch, kept, revoking)
    free = frozenset(one for one in target - kept if not held_by_others(one))
    event = Event.PARTITIONS_WITHHELD if len(kept) + len(free) < len(target) else Event.TARGET_REACHED
    return _moved(share, event, target_epoch, kept | free, frozenset())


def _moved(share: Share, event: Event, epoch: int, assigned: Partitions, revoking: Partitions) -> Share:
    previous = share.epoch if epoch != share.epoch else share.previous_epoch
    return Share(epoch, previous, NEXT_STATE[share.state, event], assigned, revoking)
