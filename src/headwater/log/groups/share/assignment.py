"""Which members of a share group work on which partitions: several may work on one, so none is left without. Pure."""

from collections.abc import Mapping, Sequence

from headwater.log.groups.consumer.assignors import PartitionId, Partitions

ASSIGNOR = "simple"


def assign(members: Mapping[str, Sequence[PartitionId]]) -> dict[str, Partitions]:
    """Each member's partitions, of those that it subscribes to. Each partition has a member, and each member as many
    partitions as the others, or one more.

    >>> from uuid import UUID
    >>> orders = [PartitionId(UUID(int=1), number) for number in (0, 1)]
    >>> shares = assign({"a": orders, "b": orders, "c": orders})
    >>> [sorted(one.number for one in shares[member]) for member in "abc"]
    [[0, 1], [1], [0]]
    """
    shares: dict[str, set[PartitionId]] = {member: set() for member in members}
    readers: dict[PartitionId, list[str]] = {}
    for member in sorted(members):
        for partition in members[member]:
            readers.setdefault(partition, []).append(member)
    by_readers: dict[tuple[str, ...], list[PartitionId]] = {}
    for partition in sorted(readers):
        by_readers.setdefault(tuple(readers[partition]), []).append(partition)
    turn = 0
    for names, partitions in by_readers.items():
        # So many members for each partition that all have one; the last round goes on where the one before ended.
        slots = len(partitions) * -(-len(names) // len(partitions))
        for slot in range(slots):
            shares[names[(turn + slot) % len(names)]].add(partitions[slot % len(partitions)])
        turn += slots
    return {member: frozenset(share) for member, share in shares.items()}
