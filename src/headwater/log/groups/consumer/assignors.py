"""Server-side assignors: which member reads which partition. Pure; the same input gives the same result.

range      the partitions of each topic in order, the first to the first member: topics with as many partitions are
           co-partitioned
uniform    as even as the subscriptions permit, and as much as possible stays where it is
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import UUID


class PartitionId(NamedTuple):
    """A partition by the id of its topic: a topic that is created again under the same name is another one."""

    topic_id: UUID
    number: int


Partitions = frozenset[PartitionId]


class TopicInfo(NamedTuple):
    id: UUID
    partitions: int


class Subscriber(NamedTuple):
    order: str
    """Members are sorted by this: their instance id, or their member id."""
    topics: frozenset[str]
    current: Partitions
    """The partitions of the target assignment before this one."""


Members = Mapping[str, Subscriber]
Topics = Mapping[str, TopicInfo]
Assignor = Callable[[Members, Topics], dict[str, Partitions]]


def assign_range(members: Members, topics: Topics) -> dict[str, Partitions]:
    shares: dict[str, set[PartitionId]] = {member: set() for member in members}
    for name, topic in sorted(topics.items()):
        readers = sorted((one for one in members if name in members[one].topics), key=lambda one: members[one].order)
        if not readers:
            continue
        each, more = divmod(topic.partitions, len(readers))
        first = 0
        for index, reader in enumerate(readers):
            count = each + (index < more)
            shares[reader] |= {PartitionId(topic.id, number) for number in range(first, first + count)}
            first += count
    return {member: frozenset(share) for member, share in shares.items()}


def assign_uniform(members: Members, topics: Topics) -> dict[str, Partitions]:
    if len({frozenset(one.topics & topics.keys()) for one in members.values()}) <= 1:
        return _uniform_alike(members, topics)
    return _uniform_mixed(members, topics)


def _uniform_alike(members: Members, topics: Topics) -> dict[str, Partitions]:
    """All members subscribe to the same topics: each keeps what it has up to its quota, the rest fills the others."""
    ordered = sorted(members, key=lambda one: members[one].order)
    if not ordered:
        return {}
    wanted = {name for name in topics if name in members[ordered[0]].topics}
    partitions = {
        PartitionId(topics[name].id, number) for name in sorted(wanted) for number in range(topics[name].partitions)
    }
    each, more = divmod(len(partitions), len(ordered))
    shares: dict[str, list[PartitionId]] = {}
    free = set(partitions)
    for member in ordered:
        kept = sorted(members[member].current & free)
        # Who has more than the smaller quota may keep one more, as long as there are partitions over.
        quota = each + (len(kept) > each and more > 0)
        more -= quota > each
        shares[member] = kept[:quota]
        free -= set(shares[member])
    rest = sorted(free, reverse=True)
    for member in ordered:
        while rest and len(shares[member]) < each:
            shares[member].append(rest.pop())
    for member in ordered:
        if rest and len(shares[member]) == each:
            shares[member].append(rest.pop())
    return {member: frozenset(share) for member, share in shares.items()}


def _uniform_mixed(members: Members, topics: Topics) -> dict[str, Partitions]:
    """Subscriptions differ: keep what is still subscribed, give the rest to the least loaded, then level the loads."""
    names = {topic.id: name for name, topic in topics.items()}
    readers = {
        name: sorted((one for one in members if name in members[one].topics), key=lambda one: members[one].order)
        for name in topics
    }
    shares: dict[str, set[PartitionId]] = {member: set() for member in members}
    free = {
        PartitionId(topic.id, number) for name, topic in topics.items() if readers[name]
        for number in range(topic.partitions)
    }  # fmt: skip
    for member in sorted(members, key=lambda one: members[one].order):
        kept = {one for one in members[member].current & free if names[one.topic_id] in members[member].topics}
        shares[member] |= kept
        free -= kept
    for one in sorted(free, key=lambda part: (len(readers[names[part.topic_id]]), part)):
        shares[min(readers[names[one.topic_id]], key=lambda member: len(shares[member]))].add(one)
    while _level(readers, topics, shares):
        pass
    return {member: frozenset(share) for member, share in shares.items()}


def _level(readers: Mapping[str, list[str]], topics: Topics, shares: dict[str, set[PartitionId]]) -> bool:
    """Move partitions from loaded members to less loaded ones. Each move makes the loads more even, so it ends."""
    moved = False
    for name in sorted(topics):
        id = topics[name].id
        while readers[name]:
            poorest = min(readers[name], key=lambda member: len(shares[member]))
            owners = [one for one in readers[name] if any(part.topic_id == id for part in shares[one])]
            richest = max(owners, key=lambda member: len(shares[member]), default=poorest)
            if len(shares[richest]) - len(shares[poorest]) <= 1:
                break
            part = max(part for part in shares[richest] if part.topic_id == id)
            shares[richest].remove(part)
            shares[poorest].add(part)
            moved = True
    return moved


DEFAULT = "uniform"

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
