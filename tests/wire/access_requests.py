"""Parts of requests about ACLs, quotas and passwords, and what a server keeps of them."""

from typing import Any

from headwater.access.acls import Acl, AclFilter, Operation, Pattern, Permission, ResourceType
from headwater.access.scram import ITERATIONS_MIN, SHA256, Mechanism, credential_for, fits, salted_password
from tests.wire.running import RunningServer

SALT = b"salt of sixteen."
PASSWORD = "correct horse"


def acl(resource: str = "orders", **fields: Any) -> dict[str, Any]:
    """Allows User:alice to read a topic, as far as nothing else is given."""
    return {
        "resource_type": ResourceType.TOPIC, "resource_name": resource, "resource_pattern_type": Pattern.LITERAL,
        "principal": "User:alice", "host": "*", "operation": Operation.READ, "permission_type": Permission.ALLOW,
        **fields,
    }  # fmt: skip


def acl_filter(**fields: Any) -> dict[str, Any]:
    """Of every ACL, as far as nothing else is given."""
    return {
        "resource_type_filter": ResourceType.ANY, "resource_name_filter": None, "pattern_type_filter": Pattern.ANY,
        "principal_filter": None, "host_filter": None, "operation": Operation.ANY, "permission_type": Permission.ANY,
        **fields,
    }  # fmt: skip


def kept_acls(server: RunningServer) -> list[Acl]:
    return server.security.store.acls(AclFilter())


def keep(server: RunningServer, *acls: dict[str, Any]) -> None:
    server.security.store.add_acls([Acl(*one_acl.values()) for one_acl in map(_in_order, acls)])


def _in_order(fields: dict[str, Any]) -> dict[str, Any]:
    order = ("resource_type", "resource_pattern_type", "resource_name", "principal", "host")
    return {name: fields[name] for name in (*order, "operation", "permission_type")}


def entity(**parts: str | None) -> list[dict[str, Any]]:
    """None is the default of all users, or of all clients."""
    return [{"entity_type": kind.replace("_", "-"), "entity_name": name} for kind, name in parts.items()]


def upsertion(name: str, mechanism: Mechanism = SHA256, password: str = PASSWORD, **fields: Any) -> dict[str, Any]:
    """A password as clients send it: hashed, with its salt."""
    return {
        "name": name, "mechanism": mechanism.number, "iterations": ITERATIONS_MIN, "salt": SALT,
        "salted_password": salted_password(mechanism, password, SALT, ITERATIONS_MIN), **fields,
    }  # fmt: skip


def add_user(server: RunningServer, name: str, mechanism: Mechanism = SHA256) -> None:
    kept = credential_for(mechanism, PASSWORD, SALT, ITERATIONS_MIN)
    server.security.store.set_credential(name, mechanism.name, kept)


def has_password(server: RunningServer, name: str, mechanism: Mechanism = SHA256, password: str = PASSWORD) -> bool:
    credential = server.security.store.credential(name, mechanism.name)
    return credential is not None and fits(mechanism, credential, password)


def plain_token(name: str, password: str = PASSWORD) -> bytes:
    return b"\0".join((b"", name.encode(), password.encode()))
