"""A node with logins, encryption and permissions, and the files that its clients need."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from headwater.access.acls import CLUSTER_NAME, Acl, Operation, Pattern, Permission, ResourceType
from headwater.access.authority import Authority
from headwater.access.scram import ITERATIONS_MIN, MECHANISMS, credential_for
from headwater.access.store import AccessStore
from headwater.clock import SystemClock
from headwater.log.log import Log
from headwater.node import Node
from headwater.settings import HttpSettings, NodeSettings, SecuritySettings
from headwater.testing import running_node

ALL_MECHANISMS = ("PLAIN", *MECHANISMS)
PASSWORD, WRONG = "correct horse", "battery staple"
USERS = ("alice", "bob")
DAYS = 30


class Certificates(NamedTuple):
    folder: Path

    @property
    def authority(self) -> Path:
        return self.folder / "authority.pem"

    @property
    def server(self) -> Path:
        return self.folder / "server.pem"

    def issue_server(self) -> None:
        Authority(self.folder, SystemClock()).issue("server", ("localhost", "127.0.0.1"), days=DAYS, client=False)

    def issue_client(self, name: str) -> Path:
        return Authority(self.folder, SystemClock()).issue(name, days=DAYS, client=True)

    def context(self, client: Path | None = None) -> ssl.SSLContext:
        """What a client believes, and what it shows."""
        context = ssl.create_default_context(cafile=str(self.authority))
        if client is not None:
            context.load_cert_chain(client, client.with_suffix(".key"))
        return context

    def settings(self, **more: Any) -> SecuritySettings:
        return SecuritySettings(certificate=self.server, certificate_key=self.server.with_suffix(".key"), **more)


def certificates_in(folder: Path) -> Certificates:
    made = Certificates(folder)
    Authority(folder, SystemClock()).make()
    made.issue_server()
    return made


def prepare(data: Path) -> None:
    """With the topics orders and payroll; alice, who may use orders and the group shop, and bob, who may do nothing."""
    log = Log.open(data)
    try:
        log.create_topic("orders")
        log.create_topic("payroll")
        store = AccessStore(log)
        for name in USERS:
            for mechanism in MECHANISMS.values():
                kept = credential_for(mechanism, PASSWORD, b"salt of sixteen.", ITERATIONS_MIN)
                store.set_credential(name, mechanism.name, kept)
        shop = acl("User:alice", Operation.ALL, "shop", ResourceType.GROUP)
        store.add_acls([acl("User:alice", Operation.ALL, "orders"), shop])
    finally:
        log.close()


@contextmanager
def secured_node(data: Path, security: SecuritySettings, *, http: bool = False) -> Iterator[Node]:
    prepare(data)
    settings = NodeSettings(security=security, http=HttpSettings() if http else None)
    with running_node(data, settings) as node:
        yield node


def acl(
    principal: str, operation: Operation, name: str = CLUSTER_NAME, kind: ResourceType = ResourceType.TOPIC,
    *, permission: Permission = Permission.ALLOW, pattern: Pattern = Pattern.LITERAL,
) -> Acl:  # fmt: skip
    return Acl(kind, pattern, name, principal, "*", operation, permission)
