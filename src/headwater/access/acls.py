"""Access control lists in Kafka's model, with Kafka's numbers. Pure.

An ACL says: this principal, from this host, is allowed (or denied) this operation on the resources of this pattern.
Kafka knows topics, groups, transactional ids, users, and the cluster. What else headwater has stands among the
topics, under names that no topic can have: view:NAME, schema:SUBJECT, flow:NAME, capture:NAME. So Kafka's own tools
can manage them.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple


class ResourceType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Pattern(IntEnum):
    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


CLUSTER_NAME = "kafka-cluster"
WILDCARD = "*"
EVERY_USER = "User:*"
NAME_LENGTH_MAX = 1024

OPERATIONS: dict[ResourceType, tuple[Operation, ...]] = {
    ResourceType.TOPIC: (
        Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DESCRIBE, Operation.DELETE, Operation.ALTER,
        Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ, Operation.DESCRIBE, Operation.DELETE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE, Operation.CLUSTER_ACTION, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE, Operation.ALTER, Operation.DESCRIBE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.DESCRIBE, Operation.WRITE, Operation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}  # fmt: skip
"""What may be done with each type of resource."""

ALLOWED_BY: dict[Operation, frozenset[Operation]] = {
    Operation.DESCRIBE: frozenset(
        {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}),
}
"""Who may read a topic may describe it. Nothing is denied in this way: a denial counts for what it names."""


class Acl(NamedTuple):
    resource_type: ResourceType
    pattern: Pattern
    resource: str
    principal: str
    host: str
    operation: Operation
    permission: Permission


class AclFilter(NamedTuple):
    """Which ACLs are meant; None stands for any."""

    resource_type: ResourceType = ResourceType.ANY
    pattern: Pattern = Pattern.ANY
    resource: str | None = None
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._matches_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if self.pattern not in (Pattern.ANY, Pattern.MATCH, acl.pattern):
            return False
        if self.resource is None or self.resource == acl.resource:
            return True
        if self.pattern is not Pattern.MATCH:
            return False
        return covers(acl, self.resource)


def covers(acl: Acl, name: str) -> bool:
    """Is a resource of this name meant by the pattern of the ACL?"""
    if acl.pattern is Pattern.PREFIXED:
        return name.startswith(acl.resource)
    return acl.resource in (name, WILDCARD)


def problem_of(acl: Acl) -> str:
    """Why this cannot be an ACL, in Kafka's terms; "" if it can."""
    if acl.resource_type not in OPERATIONS:
        return f"the resource type {acl.resource_type} is not one that ACLs are for"
    if acl.pattern not in (Pattern.LITERAL, Pattern.PREFIXED):
        return "the pattern of an ACL is literal or prefixed"
    if not 0 < len(acl.resource) <= NAME_LENGTH_MAX:
        return f"the name of a resource has 1 to {NAME_LENGTH_MAX} characters"
    if acl.resource_type is ResourceType.CLUSTER and acl.resource not in (CLUSTER_NAME, WILDCARD):
        return f"the only cluster is called {CLUSTER_NAME}"
    if acl.permission not in (Permission.ALLOW, Permission.DENY):
        return "an ACL allows or denies"
    if acl.operation is not Operation.ALL and acl.operation not in OPERATIONS[acl.resource_type]:
        return f"the operation {acl.operation.name} does not exist for {acl.resource_type.name}"
    kind, colon, name = acl.principal.partition(":")
    if not kind or not colon or not name or len(acl.principal) > NAME_LENGTH_MAX:
        return "a principal is TYPE:NAME, such as User:alice"
    if not acl.host or len(acl.host) > NAME_LENGTH_MAX:
        return "a host is an address, or * for any"
    return ""


class AclIndex:
    """ACLs by type of resource and by name, so that a decision looks only at those that can matter. Not thread-safe."""

    def __init__(self) -> None:
        self._literal: dict[tuple[ResourceType, str], set[Acl]] = {}
        self._prefixed: dict[ResourceType, dict[str, set[Acl]]] = {}
        self._lengths: dict[ResourceType, list[int]] = {}
        self._all: set[Acl] = set()

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, acl: Acl) -> bool:
        return acl in self._all

    def add(self, acl: Acl) -> None:
        self._all.add(acl)
        self._bucket(acl).add(acl)
        self._note_lengths(acl.resource_type)

    def remove(self, acl: Acl) -> None:
        self._all.discard(acl)
        self._bucket(acl).discard(acl)
        if not self._bucket(acl):
            if acl.pattern is Pattern.PREFIXED:
                del self._prefixed[acl.resource_type][acl.resource]
            else:
                del self._literal[acl.resource_type, acl.resource]
        self._note_lengths(acl.resource_type)

    def find(self, wanted: AclFilter) -> list[Acl]:
        return sorted(acl for acl in self._all if wanted.matches(acl))

    def for_resource(self, resource_type: ResourceType, name: str) -> list[Acl]:
        found = [*self._literal.get((resource_type, name), ())]
        if name != WILDCARD:
            found += self._literal.get((resource_type, WILDCARD), ())
        prefixes = self._prefixed.get(resource_type, {})
        for length in self._lengths.get(resource_type, ()):
            if length <= len(name):
                found += prefixes.get(name[:length], ())
        return found

    def for_type(self, resource_type: ResourceType) -> list[Acl]:
        return [acl for acl in self._all if acl.resource_type is resource_type]

    def _bucket(self, acl: Acl) -> set[Acl]:
        if acl.pattern is Pattern.PREFIXED:
            return self._prefixed.setdefault(acl.resource_type, {}).setdefault(acl.resource, set())
        return self._literal.setdefault((acl.resource_type, acl.resource), set())

    def _note_lengths(self, resource_type: ResourceType) -> None:
        self._lengths[resource_type] = sorted({len(prefix) for prefix in self._prefixed.get(resource_type, {})})


def decide(acls: Iterable[Acl], principal: str, host: str, operation: Operation, *, without_acl: bool = False) -> bool:
    """May the principal do this, by the ACLs of one resource? A denial counts before every permission.

    `without_acl`: the answer for a resource that has no ACL at all.
    """
    concerned = list(acls)
    if not concerned:
        return without_acl
    who = (principal, EVERY_USER) if principal.startswith("User:") else (principal,)
    matching = [acl for acl in concerned if acl.principal in who and acl.host in (host, WILDCARD)]
    if any(acl.permission is Permission.DENY and acl.operation in (operation, Operation.ALL) for acl in matching):
        return False
    allowing = ALLOWED_BY.get(operation, frozenset((operation,)))
    return any(
        acl.permission is Permission.ALLOW and (acl.operation is Operation.ALL or acl.operation in allowing)
        for acl in matching
    )


def may_on_any(acls: Iterable[Acl], principal: str, host: str, operation: Operation) -> bool:
    """Is there a resource of the type on which the principal may do this? Asked where no name is said yet.

    An ACL that allows counts unless a denial covers all that it allows.
    """
    mine = [
        acl
        for acl in acls
        if acl.principal in (principal, EVERY_USER) and acl.host in (host, WILDCARD)
        and (acl.operation in (operation, Operation.ALL)
             or (acl.permission is Permission.ALLOW and acl.operation in ALLOWED_BY.get(operation, ())))
    ]  # fmt: skip
    denials = [acl for acl in mine if acl.permission is Permission.DENY]
    return any(
        acl.permission is Permission.ALLOW and not any(_swallows(denial, acl) for denial in denials) for acl in mine
    )


def _swallows(denial: Acl, allowed: Acl) -> bool:
    if denial.pattern is Pattern.LITERAL:
        return denial.resource == WILDCARD or (
            allowed.pattern is Pattern.LITERAL and denial.resource == allowed.resource
        )
    return allowed.resource.startswith(denial.resource) and allowed.resource != WILDCARD
