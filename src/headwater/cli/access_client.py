"""Users and permissions as the commands ask a node for them, with Kafka's own admin calls."""

import secrets
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from headwater.access.acls import Acl, AclFilter, Operation, Pattern, Permission
from headwater.access.acls import ResourceType as Kind
from headwater.access.scram import ITERATIONS, MECHANISMS, SALT_BYTES
from headwater.cli.client import TIMEOUT_SECONDS, client_settings, failure_of

SCRAM = {name: getattr(ScramMechanism, name.replace("-", "_")) for name in MECHANISMS}


class AccessClient:
    def __init__(self, address: str) -> None:
        self._admin = AdminClient(client_settings(address))

    def set_password(self, user: str, password: str, mechanisms: tuple[str, ...]) -> None:
        """The password stays here: what is sent is its salted hash."""
        wanted = [
            UserScramCredentialUpsertion(
                user, ScramCredentialInfo(SCRAM[name], ITERATIONS), password.encode(), secrets.token_bytes(SALT_BYTES)
            )
            for name in mechanisms
        ]
        # One request cannot change a user twice for some brokers: one request for each mechanism.
        for one in wanted:
            self._altered(user, one)

    def remove_user(self, user: str) -> bool:
        """False if there was none."""
        known = self.users().get(user, ())
        for name in known:
            self._altered(user, UserScramCredentialDeletion(user, SCRAM[name]))
        return bool(known)

    def users(self) -> dict[str, list[str]]:
        """The mechanisms of each user."""
        found = _answer(self._admin.describe_user_scram_credentials(request_timeout=TIMEOUT_SECONDS))
        numbers = {one.value: name for name, one in SCRAM.items()}
        return {
            name: sorted(numbers[info.mechanism.value] for info in found[name].scram_credential_infos)
            for name in sorted(found)
        }

    def _altered(self, user: str, change: Any) -> None:
        _answer(self._admin.alter_user_scram_credentials([change], request_timeout=TIMEOUT_SECONDS)[user])

    def add_acls(self, acls: list[Acl]) -> None:
        for future in self._admin.create_acls([_binding(acl) for acl in acls]).values():
            _answer(future)

    def remove_acls(self, wanted: AclFilter) -> list[Acl]:
        (future,) = self._admin.delete_acls([_filter(wanted)]).values()
        return sorted(_acl(one) for one in _answer(future))

    def acls(self, wanted: AclFilter) -> list[Acl]:
        return sorted(_acl(one) for one in _answer(self._admin.describe_acls(_filter(wanted))))


def _parts(acl: Acl | AclFilter) -> tuple[Any, ...]:
    return (
        ResourceType(int(acl.resource_type)) if acl.resource_type is not Kind.CLUSTER else ResourceType.BROKER,
        acl.resource,
        ResourcePatternType(int(acl.pattern)),
        acl.principal,
        acl.host,
        AclOperation(int(acl.operation)),
        AclPermissionType(int(acl.permission)),
    )


def _binding(acl: Acl) -> AclBinding:
    return AclBinding(*_parts(acl))


def _filter(wanted: AclFilter) -> AclBindingFilter:
    return AclBindingFilter(*_parts(wanted))


def _acl(one: Any) -> Acl:
    return Acl(
        Kind(one.restype.value),
        Pattern(one.resource_pattern_type.value),
        one.name,
        one.principal,
        one.host,
        Operation(one.operation.value),
        Permission(one.permission_type.value),
    )


def _answer(future: Any) -> Any:
    try:
        return future.result(timeout=TIMEOUT_SECONDS + 5)
    except KafkaException as error:
        raise failure_of(error.args[0]) from None
