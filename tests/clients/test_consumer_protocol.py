"""Groups whose partitions the coordinator assigns (KIP-848), and groups that change to that and back."""

from collections.abc import Callable, Sequence

from tests.clients.client import Client
from tests.clients.conftest import StartMember
from tests.clients.membership import Member, Membership
from tests.clients.parametrize import for_clients
from tests.clients.test_membership import PARTITIONS, produced, read_by
from tests.waiting import wait_until


def shared_out(members: Sequence[Member]) -> Callable[[], bool]:
    def shared() -> bool:
        owned = [one for member in members for one in member.partitions]
        return sorted(owned) == list(range(PARTITIONS)) and all(member.partitions for member in members)

    return shared


@for_clients("member_command", "consumer_protocol")
def test_a_group_that_loses_a_member_misses_nothing(
    client: Client, admin: Client, make_topic: Callable[..., str], name: str, start_member: StartMember
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    members = [start_member(client, Membership(topic, name, protocol="consumer")) for _ in range(3)]
    wait_until(lambda: [len(one.partitions) for one in members] == [2, 2, 2], "two partitions for each of three")
    places = produced(admin, topic, 50, start=0)
    wait_until(lambda: bool(members[0].read), "the first member to read something")
    victim, *survivors = members
    victim.kill()
    places |= produced(admin, topic, 50, start=50)
    wait_until(lambda: read_by(*members) == places, "everything to be read", seconds=60)
    assert sorted(len(survivor.wait_for(3)) for survivor in survivors) == [3, 3]


@for_clients("member_command", "consumer_protocol")
def test_a_member_keeps_what_it_need_not_give(
    client: Client, make_topic: Callable[..., str], name: str, start_member: StartMember
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    first = start_member(client, Membership(topic, name, protocol="consumer"))
    first.wait_for(PARTITIONS)
    second = start_member(client, Membership(topic, name, protocol="consumer"))
    moved = second.wait_for(PARTITIONS // 2)
    assert [given_up for kind, given_up in first.events if kind == "revoked" and given_up] == [moved]
    second.stop()
    assert first.wait_for(PARTITIONS) == frozenset(range(PARTITIONS))


@for_clients("member_command", "consumer_protocol", "static")
def test_a_static_member_comes_back_without_a_rebalance(
    client: Client, make_topic: Callable[..., str], name: str, start_member: StartMember
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    steady = start_member(client, Membership(topic, name, instance_id="steady", protocol="consumer"))
    restarted = start_member(client, Membership(topic, name, instance_id="restarted", protocol="consumer"))
    wait_until(lambda: len(steady.partitions) == len(restarted.partitions) == 3, "three partitions for each of two")
    before, events_before = restarted.partitions, list(steady.events)
    restarted.stop()
    again = start_member(client, Membership(topic, name, instance_id="restarted", protocol="consumer"))
    assert again.wait_for(3) == before
    assert steady.events == events_before


@for_clients("member_command", "consumer_protocol")
def test_a_group_of_six_moves_to_the_consumer_protocol_and_back(
    client: Client, admin: Client, make_topic: Callable[..., str], name: str, start_member: StartMember
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    members = [start_member(client, Membership(topic, name)) for _ in range(PARTITIONS)]
    everyone = list(members)
    places: set[tuple[int, int]] = set()
    wait_until(shared_out(members), "one partition for each of six", seconds=60)
    rounds = 0
    for protocol in ("consumer", "classic"):
        for index in range(PARTITIONS):
            places |= produced(admin, topic, 10, start=10 * rounds)
            rounds += 1
            members[index].stop()
            members[index] = start_member(client, Membership(topic, name, protocol=protocol))
            everyone.append(members[index])
            wait_until(shared_out(members), f"all to have one with {index + 1} of {protocol}", seconds=60)
    wait_until(lambda: read_by(*everyone) >= places, "everything to be read", seconds=60)
    wait_until(lambda: len([one for member in everyone for one in member.committed]) >= len(places), "all committed")
    committed = [record for member in everyone for record in member.committed]
    assert sorted(committed) == sorted(places), "nothing is missing, and nothing is committed twice"
