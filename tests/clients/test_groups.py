"""Groups as an administrator and a lone member see them: offsets, descriptions, deletion."""

from collections.abc import Callable

import pytest

from tests.clients.client import GROUP_NOT_EMPTY, SUBSCRIBED_TO_TOPIC, UNKNOWN_GROUP, Client, Refused
from tests.clients.conftest import StartMember
from tests.clients.membership import Membership
from tests.clients.message import contents, numbered
from tests.clients.parametrize import for_clients


@for_clients("read_as_group")
def test_a_group_resumes_where_it_stopped(client: Client, admin: Client, topic: str, name: str) -> None:
    admin.produce(topic, numbered(30))
    first = client.read_as_group(topic, name, 10)
    second = client.read_as_group(topic, name, 20)
    assert contents(first + second) == numbered(30)


@for_clients("read_as_group")
def test_two_groups_each_read_everything(client: Client, admin: Client, topic: str, name: str) -> None:
    admin.produce(topic, numbered(10))
    assert contents(client.read_as_group(topic, f"{name}-1", 10)) == numbered(10)
    assert contents(client.read_as_group(topic, f"{name}-2", 10)) == numbered(10)


@for_clients("read_as_group")
def test_what_a_member_commits_an_administrator_sees(client: Client, admin: Client, topic: str, name: str) -> None:
    admin.produce(topic, numbered(10))
    client.read_as_group(topic, name, 10)
    assert admin.committed(name, topic) == {0: 10}


@for_clients("commit", "committed")
def test_offsets_can_be_committed_for_a_group_without_members(
    client: Client, make_topic: Callable[..., str], name: str
) -> None:
    topic = make_topic(partitions=3)
    client.commit(name, topic, {0: 5, 2: 7})
    client.commit(name, topic, {2: 8})
    assert client.committed(name, topic) == {0: 5, 2: 8}


@for_clients("committed")
def test_an_unknown_group_has_no_offsets(client: Client, topic: str, name: str) -> None:
    assert client.committed(name, topic) == {}


@for_clients("commit")
def test_a_group_starts_at_the_requested_offset(client: Client, admin: Client, topic: str, name: str) -> None:
    admin.produce(topic, numbered(10))
    client.commit(name, topic, {0: 7})
    assert contents(admin.read_as_group(topic, name, 3)) == numbered(10)[7:]


@for_clients("delete_offsets")
def test_deleted_offsets_are_forgotten(
    client: Client, admin: Client, make_topic: Callable[..., str], name: str
) -> None:
    topic = make_topic(partitions=2)
    admin.commit(name, topic, {0: 5, 1: 6})
    client.delete_offsets(name, topic, [0])
    assert admin.committed(name, topic) == {1: 6}


@for_clients("delete_offsets")
def test_offsets_in_use_are_not_deleted(
    client: Client, admin: Client, topic: str, name: str, start_member: StartMember
) -> None:
    start_member(admin, Membership(topic, name)).wait_for(1)
    with pytest.raises(Refused) as refused:
        client.delete_offsets(name, topic, [0])
    assert refused.value.code == SUBSCRIBED_TO_TOPIC


@for_clients("groups")
def test_a_group_is_listed(client: Client, admin: Client, topic: str, name: str) -> None:
    admin.commit(name, topic, {0: 0})
    assert name in client.groups()


@for_clients("groups_in_state")
def test_groups_can_be_listed_by_their_state(
    client: Client, admin: Client, topic: str, name: str, start_member: StartMember
) -> None:
    working, idle = f"{name}-working", f"{name}-idle"
    admin.commit(idle, topic, {0: 0})
    start_member(admin, Membership(topic, working)).wait_for(1)
    assert {working, idle} & set(client.groups_in_state("Stable")) == {working}
    assert {working, idle} & set(client.groups_in_state("Empty")) == {idle}


@for_clients("describe_group")
def test_a_working_group_is_stable_and_shows_who_reads_what(
    client: Client, admin: Client, make_topic: Callable[..., str], name: str, start_member: StartMember
) -> None:
    topic = make_topic(partitions=2)
    start_member(admin, Membership(topic, name)).wait_for(2)
    described = client.describe_group(name)
    assert described.state == "Stable"
    assert [sorted(member) for member in described.members] == [[(topic, 0), (topic, 1)]]


@for_clients("describe_group")
def test_a_group_without_members_is_empty(client: Client, admin: Client, topic: str, name: str) -> None:
    admin.produce(topic, numbered(1))
    admin.read_as_group(topic, name, 1)
    assert client.describe_group(name) == ("Empty", [])


@for_clients("remove_member")
def test_a_static_member_can_be_taken_out(
    client: Client, admin: Client, make_topic: Callable[..., str], name: str, start_member: StartMember
) -> None:
    topic = make_topic(partitions=2)
    gone = start_member(admin, Membership(topic, name, instance_id="gone", session_ms=60_000))
    gone.wait_for(2)
    gone.kill()
    client.remove_member(name, "gone")
    # With sessions this long nothing but the removal can have freed the partitions.
    start_member(admin, Membership(topic, name, session_ms=60_000)).wait_for(2)


@for_clients("delete_group")
def test_a_deleted_group_has_forgotten_its_offsets(client: Client, admin: Client, topic: str, name: str) -> None:
    admin.commit(name, topic, {0: 5})
    client.delete_group(name)
    assert name not in admin.groups()
    assert admin.committed(name, topic) == {}


@for_clients("delete_group")
def test_an_unknown_group_cannot_be_deleted(client: Client, name: str) -> None:
    with pytest.raises(Refused) as refused:
        client.delete_group(name)
    assert refused.value.code == UNKNOWN_GROUP


@for_clients("delete_group")
def test_a_group_with_members_is_not_deleted(
    client: Client, admin: Client, topic: str, name: str, start_member: StartMember
) -> None:
    start_member(admin, Membership(topic, name)).wait_for(1)
    with pytest.raises(Refused) as refused:
        client.delete_group(name)
    assert refused.value.code == GROUP_NOT_EMPTY
