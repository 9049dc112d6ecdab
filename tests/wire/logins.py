"""A Kafka port with logins for tests, and a raw client that logs in."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

from headwater.access.acls import CLUSTER_NAME, Acl, AclFilter, Operation, Pattern, Permission, ResourceType
from headwater.access.scram import ITERATIONS_MIN, SHA256, credential_for
from headwater.settings import SecuritySettings
from tests.wire.raw_client import RawClient
from tests.wire.running import RunningServer, running_server

PASSWORD = "correct horse"
PLAIN = SecuritySettings(mechanisms=("PLAIN",), super_users=("User:admin",))


def add_user(server: RunningServer, name: str, password: str = PASSWORD) -> None:
    kept = credential_for(SHA256, password, b"salt of sixteen.", ITERATIONS_MIN)
    server.security.store.set_credential(name, SHA256.name, kept)


def allow(
    server: RunningServer, principal: str, operation: Operation, resource_type: ResourceType, name: str = CLUSTER_NAME,
    *, permission: Permission = Permission.ALLOW, pattern: Pattern = Pattern.LITERAL,
) -> None:  # fmt: skip
    server.security.store.add_acls([Acl(resource_type, pattern, name, principal, "*", operation, permission)])


def forget_acls(server: RunningServer) -> None:
    server.security.store.remove_acls(AclFilter())


def token(name: str, password: str = PASSWORD) -> bytes:
    return b"\0".join((b"", name.encode(), password.encode()))


def log_in(client: RawClient, name: str, password: str = PASSWORD) -> Any:
    chosen = client.call(SaslHandshakeRequest(mechanism="PLAIN"))
    assert chosen.error_code is ErrorCode.none, chosen
    return client.call(SaslAuthenticateRequest(auth_bytes=token(name, password)))


@contextmanager
def logged_in(server: RunningServer, name: str) -> Iterator[RawClient]:
    with RawClient(server.host, server.port) as client:
        answer = log_in(client, name)
        assert answer.error_code is ErrorCode.none, answer
        yield client


@contextmanager
def guarded_server(security: SecuritySettings = PLAIN, **settings: Any) -> Iterator[RunningServer]:
    """With the users alice and admin, of whom admin is a super user."""
    with running_server(security=security, **settings) as server:
        add_user(server, "alice")
        add_user(server, "admin")
        yield server
