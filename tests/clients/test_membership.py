"""Groups of several processes: sharing out, the death of a member, static members, cooperative rebalance."""

from collections.abc import Callable

from tests.clients.client import Client
from tests.clients.conftest import StartMember
from tests.clients.membership import Member, Membership
from tests.clients.message import numbered
from tests.clients.parametrize import for_clients
from tests.waiting import wait_until

PARTITIONS = 6


def produced(admin: Client, topic: str, count: int, start: int) -> set[tuple[int, int]]:
    """Write `count` records to every partition, whose offsets then begin at `start`; answers their places."""
    for partition in range(PARTITIONS):
        admin.produce(topic, numbered(count, partition))
    return {(partition, offset) for partition in range(PARTITIONS) for offset in range(start, start + count)}


def read_by(*members: Member) -> set[tuple[int, int]]:
    return set().union(*(set(member.read) for member in members))


@for_clients("member_command")
def test_a_group_of_three_that_loses_a_member_misses_nothing(
    client: Client, admin: Client, make_topic: Callable[..., str], name: str, start_member: StartMember
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    members = [start_member(client, Membership(topic, name)) for _ in range(3)]
    wait_until(lambda: [len(one.partitions) for one in members] == [2, 2, 2], "two partitions for each of three")
    places = produced(admin, topic, 50, start=0)
    wait_until(lambda: bool(members[0].read), "the first member to read something")
    victim, *survivors = members
    victim.kill()
    places |= produced(admin, topic, 50, start=50)
    wait_until(lambda: read_by(*members) == places, "everything to be read", seconds=30)
    assert sorted(len(survivor.wait_for(3)) for survivor in survivors) == [3, 3]


@for_clients("member_command")
def test_a_member_that_leaves_hands_over_at_once(
    client: Client, make_topic: Callable[..., str], name: str, start_member: StartMember
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    # With a session this long only a proper leave can free the partitions in time.
    first, second = (start_member(client, Membership(topic, name, session_ms=60_000)) for _ in range(2))
    wait_until(lambda: len(first.partitions) == len(second.partitions) == 3, "three partitions for each of two")
    first.stop()
    second.wait_for(PARTITIONS, seconds=20)


@for_clients("member_command", "static")
def test_a_static_member_comes_back_without_a_rebalance(
    client: Client, make_topic: Callable[..., str], name: str, start_member: StartMember
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    steady = start_member(client, Membership(topic, name, instance_id="steady", session_ms=20_000))
    restarted = start_member(client, Membership(topic, name, instance_id="restarted", session_ms=20_000))
    wait_until(lambda: len(steady.partitions) == len(restarted.partitions) == 3, "three partitions for each of two")
    before, events_before = restarted.partitions, list(steady.events)
    restarted.kill()
    again = start_member(client, Membership(topic, name, instance_id="restarted", session_ms=20_000))
    assert again.wait_for(3) == before
    assert steady.events == events_before


@for_clients("member_command", "cooperative")
def test_a_cooperative_member_keeps_what_it_need_not_give(
    client: Client, make_topic: Callable[..., str], name: str, start_member: StartMember
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    first = start_member(client, Membership(topic, name, cooperative=True))
    first.wait_for(PARTITIONS)
    second = start_member(client, Membership(topic, name, cooperative=True))
    moved = second.wait_for(PARTITIONS // 2)
    given_up = [gone for kind, gone in first.events if kind == "revoked" and gone]
    assert given_up == [moved]
    assert first.partitions == frozenset(range(PARTITIONS)) - moved
