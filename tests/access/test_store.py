"""Users, ACLs and quotas: what was acknowledged survives every crash, and nothing is half there."""

import json
from collections.abc import Callable
from random import Random

import pytest

from headwater.access import store as store_module
from headwater.access.acls import Acl, AclFilter, Operation, Pattern, Permission, ResourceType
from headwater.access.authorizer import Authorizer
from headwater.access.principals import LOCAL, Principal, user
from headwater.access.quotas import PRODUCE, entity
from headwater.access.scram import ITERATIONS_MIN, SHA256, SHA512, credential_for
from headwater.access.store import AccessStore
from headwater.errors import ConflictError, HeadwaterError
from headwater.log.log import Log
from headwater.log.storage import Storage
from headwater.log.storage.memory import MemoryStorage
from headwater.log.storage.simulated import SimulatedDisk
from headwater.log.topic import ACCESS_TOPIC, AUDIT_TOPIC
from headwater.record import Record

TOPIC = ResourceType.TOPIC
CREDENTIAL = credential_for(SHA256, "correct horse", b"salt of sixteen.", ITERATIONS_MIN)


def acl(name: str, permission: Permission = Permission.ALLOW, principal: str = "User:alice") -> Acl:
    return Acl(TOPIC, Pattern.LITERAL, name, principal, "*", Operation.READ, permission)


class Opened:
    def __init__(self, storage: Storage) -> None:
        self.log = Log.open("data", storage=storage)
        self.store = AccessStore(self.log)
        self.store.load()

    def content(self) -> tuple[object, ...]:
        store = self.store
        users = {name: dict(store.credentials(name)) for name in store.user_names()}
        return users, store.acls(AclFilter()), store.quotas()


CHANGES: list[Callable[[AccessStore], object]] = [
    lambda store: store.set_credential("alice", SHA256.name, CREDENTIAL),
    lambda store: store.set_credential("alice", SHA512.name, CREDENTIAL),
    lambda store: store.add_acls([acl("orders"), acl("payments"), acl("payroll", Permission.DENY)]),
    lambda store: store.change_quota(entity(user="alice"), {PRODUCE: 1000.0}),
    lambda store: store.set_credential("bob", SHA256.name, CREDENTIAL),
    lambda store: store.remove_acls(AclFilter(permission=Permission.ALLOW)),
    lambda store: store.set_credential("bob", SHA256.name, None),
    lambda store: store.change_quota(entity(user="alice"), {PRODUCE: None}),
]


def contents() -> list[tuple[object, ...]]:
    """What there is before the first change and after each."""
    opened = Opened(MemoryStorage())
    found = [opened.content()]
    for change in CHANGES:
        change(opened.store)
        found.append(opened.content())
    return found


def test_what_was_changed_is_there_after_a_restart() -> None:
    storage = MemoryStorage()
    opened = Opened(storage)
    for change in CHANGES[:5]:
        change(opened.store)
    before = opened.content()
    opened.log.close()
    again = Opened(storage)
    assert again.content() == before == contents()[5]
    assert not again.store.doubt


class Crash(Exception):
    pass


def cut_at(call: int, *, power: bool) -> tuple[int, tuple[object, ...]]:
    """How many changes were acknowledged before the node died in its `call`th call of the disk, and what is left."""
    disk, left = SimulatedDisk(seed=call), call
    opened = Opened(disk)
    found: list[SimulatedDisk] = []

    def die(_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            found.append(disk.crash(Random(call)) if power else disk.kill())

    disk.on_call = die
    acknowledged = 0
    for change in CHANGES:
        change(opened.store)
        acknowledged += not found
    disk.on_call = None
    survivor = found[0] if found else disk.kill()
    return acknowledged, Opened(survivor).content()


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power cut"])
def test_a_change_is_whole_or_not_there_wherever_the_node_dies(power: bool) -> None:
    states, wrong, longest = contents(), [], 0
    for call in range(1, 200):
        acknowledged, content = cut_at(call, power=power)
        longest = max(longest, acknowledged)
        if content not in states[acknowledged : acknowledged + 2]:
            wrong.append((call, acknowledged, content))
    assert wrong == []
    assert longest == len(CHANGES)  # the last calls were reached


def test_a_user_without_passwords_is_none() -> None:
    opened = Opened(MemoryStorage())
    assert opened.store.set_credential("alice", SHA256.name, CREDENTIAL)
    assert opened.store.set_credential("alice", SHA256.name, None)
    assert not opened.store.set_credential("alice", SHA256.name, None)
    assert opened.store.user_names() == []


def test_a_full_store_takes_nothing_more_and_can_be_made_emptier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "ENTRIES_MAX", 2)
    opened = Opened(MemoryStorage())
    opened.store.add_acls([acl("orders"), acl("payments")])
    with pytest.raises(ConflictError):
        opened.store.add_acls([acl("payroll")])
    assert opened.store.remove_acls(AclFilter(resource="orders")) == [acl("orders")]
    opened.store.add_acls([acl("payroll")])


@pytest.mark.parametrize("value", [b"{", b"[]", b'{"SCRAM-SHA-256": 7}', b'{"SCRAM-SHA-256": {"salt": "%"}}'])
def test_a_record_that_cannot_be_read_lets_only_super_users_in(value: bytes) -> None:
    storage = MemoryStorage()
    opened = Opened(storage)
    opened.store.add_acls([acl("orders")])
    opened.log.append(ACCESS_TOPIC, [Record(value, json.dumps(["user", "eve"]).encode())], partition=0)
    opened.log.close()
    again = Opened(storage)
    assert again.store.doubt
    authorizer = Authorizer(again.store, [user("admin")], without_acl=True)
    assert not authorizer.allowed(user("alice"), "127.0.0.9", Operation.READ, TOPIC, "orders")
    assert not authorizer.allowed_on_any(user("alice"), "127.0.0.9", Operation.WRITE, TOPIC)
    assert authorizer.allowed(user("admin"), "127.0.0.9", Operation.READ, TOPIC, "orders")
    assert authorizer.allowed(LOCAL, "127.0.0.1", Operation.READ, TOPIC, "orders")


def test_a_failed_write_changes_nothing() -> None:
    opened = Opened(MemoryStorage())
    opened.store.add_acls([acl("orders")])
    before = opened.content()
    opened.log.close()
    with pytest.raises(HeadwaterError):
        opened.store.add_acls([acl("payments")])
    assert opened.content() == before


# -- the authorizer, on a store --------------------------------------------------------------------------------------


def allowed(authorizer: Authorizer, who: Principal, name: str) -> bool:
    return authorizer.allowed(who, "127.0.0.9", Operation.READ, TOPIC, name)


def test_a_change_counts_for_the_next_question() -> None:
    opened = Opened(MemoryStorage())
    authorizer = Authorizer(opened.store, (), without_acl=False)
    assert not allowed(authorizer, user("alice"), "orders")
    opened.store.add_acls([acl("orders")])
    assert allowed(authorizer, user("alice"), "orders")
    opened.store.add_acls([acl("orders", Permission.DENY, "User:*")])
    assert not allowed(authorizer, user("alice"), "orders")


def test_a_super_user_is_not_denied_anything() -> None:
    opened = Opened(MemoryStorage())
    opened.store.add_acls([acl("*", Permission.DENY, "User:*")])
    authorizer = Authorizer(opened.store, [user("admin")], without_acl=False)
    assert allowed(authorizer, user("admin"), "orders")
    assert authorizer.is_super_user(user("admin"))
    assert not allowed(authorizer, Principal("Token", "admin"), "orders")


def test_where_what_has_no_acl_is_free_permissions_and_audit_are_not() -> None:
    authorizer = Authorizer(Opened(MemoryStorage()).store, (), without_acl=True)
    assert allowed(authorizer, user("alice"), "orders")
    assert not allowed(authorizer, user("alice"), ACCESS_TOPIC)
    assert not allowed(authorizer, user("alice"), AUDIT_TOPIC)


def test_a_denial_of_every_topic_counts_where_what_has_no_acl_is_free() -> None:
    opened = Opened(MemoryStorage())
    opened.store.add_acls([Acl(TOPIC, Pattern.LITERAL, "*", "User:alice", "*", Operation.ALL, Permission.DENY)])
    authorizer = Authorizer(opened.store, (), without_acl=True)
    assert not authorizer.allowed_on_any(user("alice"), "127.0.0.9", Operation.WRITE, TOPIC)


def test_questions_about_made_up_names_cost_bounded_memory() -> None:
    authorizer = Authorizer(Opened(MemoryStorage()).store, (), without_acl=False)
    assert not allowed(authorizer, user("alice"), "a" * 30_000)
    assert not authorizer._decisions
