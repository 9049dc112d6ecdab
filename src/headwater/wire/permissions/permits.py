"""What the client of one request may do. Denials are noted for the audit topic."""

from typing import TYPE_CHECKING

from headwater.access.acls import CLUSTER_NAME, OPERATIONS, Operation, ResourceType
from headwater.access.audit import DENIED, Event

if TYPE_CHECKING:
    from headwater.access.principals import Principal
    from headwater.wire.security import Security


class Permits:
    __slots__ = ("_api", "_host", "_principal", "_security")

    def __init__(self, security: "Security", principal: "Principal", host: str, api: str) -> None:
        self._security, self._principal, self._host, self._api = security, principal, host, api

    @property
    def who(self) -> str:
        return str(self._principal)

    def sees(self, operation: Operation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> bool:
        """May it? For what is left out where it may not: it was not asked for, so nothing is audited."""
        return self._security.authorizer.allowed(self._principal, self._host, operation, resource_type, name)

    def may(self, operation: Operation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> bool:
        if self.sees(operation, resource_type, name):
            return True
        resource = f"{resource_type.name}:{name}"
        event = Event(DENIED, str(self._principal), self._host, self._api, operation.name, resource)
        self._security.audit.note(event)
        return False

    def may_on_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        return self._security.authorizer.allowed_on_any(self._principal, self._host, operation, resource_type)

    def operations(self, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
        """All that it may do, as Kafka's answers have it: a bit for each operation."""
        allowed = [one for one in OPERATIONS[resource_type] if self.sees(one, resource_type, name)]
        return sum(1 << operation for operation in allowed)
