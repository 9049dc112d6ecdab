"""The decision, from a table of ACLs and questions; and the index against looking at every ACL."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.access.acls import (
    ALLOWED_BY,
    CLUSTER_NAME,
    OPERATIONS,
    Acl,
    AclFilter,
    AclIndex,
    Operation,
    Pattern,
    Permission,
    ResourceType,
    covers,
    decide,
    may_on_any,
    problem_of,
)

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
ALICE, BOB = "User:alice", "User:bob"


def acl(said: str) -> Acl:
    """From "allow User:alice read orders", with "orders*" for a prefix, "*" for all, and "from HOST" at the end.

    >>> acl("deny User:* write orders* from 127.0.0.1").pattern.name
    'PREFIXED'
    """
    permission, principal, operation, name, *rest = said.split()
    prefixed = name.endswith("*") and name != "*"
    pattern, resource = (Pattern.PREFIXED, name[:-1]) if prefixed else (Pattern.LITERAL, name)
    return Acl(
        TOPIC, pattern, resource, principal, rest[1] if rest else "*", Operation[operation.upper()],
        Permission[permission.upper()],
    )  # fmt: skip


def allowed(
    acls: list[str], principal: str, operation: str, name: str, host: str = "127.0.0.9", *, free: bool = False
) -> bool:
    index = AclIndex()
    for said in acls:
        index.add(acl(said))
    return decide(index.for_resource(TOPIC, name), principal, host, Operation[operation.upper()], without_acl=free)


DECISIONS = [
    ("without an ACL nothing is allowed", [], "read orders", False),
    ("an ACL of the name allows", ["allow User:alice read orders"], "read orders", True),
    ("of another name it does not", ["allow User:alice read orders"], "read payments", False),
    ("a literal name is no prefix", ["allow User:alice read orders"], "read orders.eu", False),
    ("of another operation it does not", ["allow User:alice write orders"], "read orders", False),
    ("of another principal it does not", ["allow User:bob read orders"], "read orders", False),
    ("principals are of their case", ["allow User:Alice read orders"], "read orders", False),
    ("an ACL of everybody counts for each", ["allow User:* read orders"], "read orders", True),
    ("the wildcard stands for all names", ["allow User:alice read *"], "read orders", True),
    ("a prefix stands for what begins with it", ["allow User:alice read ord*"], "read orders", True),
    ("and for itself", ["allow User:alice read orders*"], "read orders", True),
    ("and not for what is shorter", ["allow User:alice read orders.*"], "read orders", False),
    ("all operations include each", ["allow User:alice all orders"], "alter orders", True),
    ("a denial counts before a permission", ["allow User:alice read orders", "deny User:alice read orders"],
     "read orders", False),
    ("also one for all names", ["allow User:alice read orders", "deny User:alice read *"], "read orders", False),
    ("also one for a prefix", ["allow User:alice read orders", "deny User:alice read o*"], "read orders", False),
    ("also one for everybody", ["allow User:alice read orders", "deny User:* read orders"], "read orders", False),
    ("also one for all operations", ["allow User:alice read orders", "deny User:alice all orders"],
     "read orders", False),
    ("a denial of something else does not", ["allow User:alice read orders", "deny User:alice write orders"],
     "read orders", True),
    ("a denial for another does not", ["allow User:* read orders", "deny User:bob read orders"], "read orders", True),
    ("who reads may describe", ["allow User:alice read orders"], "describe orders", True),
    ("who writes may describe", ["allow User:alice write orders"], "describe orders", True),
    ("who deletes may describe", ["allow User:alice delete orders"], "describe orders", True),
    ("who alters may describe", ["allow User:alice alter orders"], "describe orders", True),
    ("who creates may not describe", ["allow User:alice create orders"], "describe orders", False),
    ("who describes may not read", ["allow User:alice describe orders"], "read orders", False),
    ("who alters settings may see them", ["allow User:alice alter_configs orders"], "describe_configs orders", True),
    ("a denial to read is none to describe", ["allow User:alice all orders", "deny User:alice read orders"],
     "describe orders", True),
    ("a host that is named counts", ["allow User:alice read orders from 127.0.0.9"], "read orders", True),
    ("another host does not", ["allow User:alice read orders from 127.0.0.8"], "read orders", False),
    ("a denial for one host counts there",
     ["allow User:alice read orders", "deny User:alice read orders from 127.0.0.9"], "read orders", False),
    ("and not elsewhere", ["allow User:alice read orders", "deny User:alice read orders from 127.0.0.8"],
     "read orders", True),
]  # fmt: skip


@pytest.mark.parametrize("rule, acls, question, answer", DECISIONS, ids=[row[0] for row in DECISIONS])
def test_a_decision(rule: str, acls: list[str], question: str, answer: bool) -> None:
    operation, name = question.split()
    assert allowed(acls, ALICE, operation, name) is answer, rule


def test_what_no_acl_is_about_is_free_only_where_the_node_says_so() -> None:
    assert allowed([], ALICE, "write", "orders", free=True)
    assert not allowed(["allow User:bob read orders"], ALICE, "write", "orders", free=True)
    assert not allowed(["allow User:bob read ord*"], ALICE, "read", "orders", free=True)


names = st.text("ab.", min_size=1, max_size=4)
acls = st.builds(
    Acl,
    st.sampled_from([TOPIC, GROUP]),
    st.sampled_from([Pattern.LITERAL, Pattern.PREFIXED]),
    names | st.just("*"),
    st.sampled_from([ALICE, BOB, "User:*"]),
    st.sampled_from(["*", "127.0.0.1", "127.0.0.2"]),
    st.sampled_from([Operation.ALL, Operation.READ, Operation.WRITE, Operation.DESCRIBE]),
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
)


def plainly(found: set[Acl], principal: str, host: str, operation: Operation, name: str) -> bool:
    """The rules once more, in Kafka's order, over every ACL."""
    mine = [
        one for one in found
        if one.resource_type is TOPIC and one.principal in (principal, "User:*") and one.host in (host, "*")
        and (one.resource in (name, "*") if one.pattern is Pattern.LITERAL else name.startswith(one.resource))
    ]  # fmt: skip
    denied = {one.operation for one in mine if one.permission is Permission.DENY}
    given_ = {one.operation for one in mine if one.permission is Permission.ALLOW}
    if denied & {operation, Operation.ALL}:
        return False
    return bool(given_ & {Operation.ALL, operation, *ALLOWED_BY.get(operation, ())})


@settings(max_examples=100)
@given(
    added=st.lists(acls, max_size=12), removed=st.sets(st.integers(0, 11)), name=names,
    principal=st.sampled_from([ALICE, BOB]), host=st.sampled_from(["127.0.0.1", "127.0.0.2"]),
    operation=st.sampled_from([Operation.READ, Operation.WRITE, Operation.DESCRIBE]),
)  # fmt: skip
def test_the_index_decides_as_looking_at_every_acl_does(
    added: list[Acl], removed: set[int], name: str, principal: str, host: str, operation: Operation
) -> None:
    index, kept = AclIndex(), set(added)
    for one in added:
        index.add(one)
    for one in {added[number] for number in removed if number < len(added)}:
        index.remove(one)
        kept.discard(one)
    assert len(index) == len(kept)
    assert index.find(AclFilter()) == sorted(kept)
    assert index.find(AclFilter(TOPIC, Pattern.MATCH, name)) == sorted(
        one for one in kept if one.resource_type is TOPIC and covers(one, name)
    )
    decided = decide(index.for_resource(TOPIC, name), principal, host, operation)
    assert decided is plainly(kept, principal, host, operation, name)


@settings(max_examples=100)
@given(found=st.sets(acls, max_size=6), operation=st.sampled_from([Operation.READ, Operation.WRITE]))
def test_something_is_allowed_on_any_resource_only_if_it_is_allowed_on_one(
    found: set[Acl], operation: Operation
) -> None:
    """All names that the ACLs can distinguish: each prefix alone and continued."""
    ours = [one for one in found if one.resource_type is TOPIC]
    candidates = {f"{one.resource}{more}" for one in ours for more in ("", "!") if one.resource != "*"} | {"elsewhere"}
    some = any(plainly(found, ALICE, "127.0.0.1", operation, name) for name in candidates)
    if some:
        assert may_on_any(ours, ALICE, "127.0.0.1", operation)


@pytest.mark.parametrize(
    "wanted, found",
    [
        (AclFilter(), 4),
        (AclFilter(resource_type=GROUP), 0),
        (AclFilter(TOPIC, Pattern.LITERAL, "orders"), 1),
        (AclFilter(TOPIC, Pattern.PREFIXED, "orders"), 0),
        (AclFilter(TOPIC, Pattern.PREFIXED, "ord"), 1),
        (AclFilter(TOPIC, Pattern.ANY, "orders"), 1),
        (AclFilter(TOPIC, Pattern.MATCH, "orders"), 3),
        (AclFilter(TOPIC, Pattern.MATCH, "payments"), 2),
        (AclFilter(principal=BOB), 1),
        (AclFilter(principal="User:*"), 0),
        (AclFilter(host="127.0.0.1"), 1),
        (AclFilter(operation=Operation.WRITE), 1),
        (AclFilter(permission=Permission.DENY), 1),
    ],
)
def test_a_filter_finds(wanted: AclFilter, found: int) -> None:
    index = AclIndex()
    for said in ("allow User:alice read orders", "allow User:alice write ord*", "deny User:bob all payments",
                 "allow User:alice read * from 127.0.0.1"):  # fmt: skip
        index.add(acl(said))
    assert len(index.find(wanted)) == found


@pytest.mark.parametrize(
    "why, changed",
    [
        ("literal or prefixed", {"pattern": Pattern.MATCH}),
        ("1 to 1024", {"resource": ""}),
        ("1 to 1024", {"resource": "a" * 1025}),
        ("only cluster", {"resource_type": ResourceType.CLUSTER}),
        ("allows or denies", {"permission": Permission.ANY}),
        ("does not exist for TOPIC", {"operation": Operation.CLUSTER_ACTION}),
        ("does not exist for TOPIC", {"operation": Operation.ANY}),
        ("TYPE:NAME", {"principal": "alice"}),
        ("TYPE:NAME", {"principal": "User:"}),
        ("an address", {"host": ""}),
        ("not one that ACLs are for", {"resource_type": ResourceType.ANY}),
    ],
)
def test_what_cannot_be_an_acl_is_explained(why: str, changed: dict[str, object]) -> None:
    good = acl("allow User:alice read orders")
    assert problem_of(good) == ""
    assert why in problem_of(good._replace(**changed))  # type: ignore[arg-type]


def test_the_cluster_has_one_name() -> None:
    good = Acl(ResourceType.CLUSTER, Pattern.LITERAL, CLUSTER_NAME, ALICE, "*", Operation.ALTER, Permission.ALLOW)
    assert problem_of(good) == ""
    assert set(OPERATIONS) >= {TOPIC, GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID}
