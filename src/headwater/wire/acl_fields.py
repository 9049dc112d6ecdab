"""ACLs and filters of ACLs, from the fields of requests and back."""

from typing import Any

from headwater.access.acls import Acl, AclFilter, Operation, Pattern, Permission, ResourceType
from headwater.wire.protocol.fields import Fields


def acl_in(creation: Any) -> Acl:
    """ValueError if a number stands for nothing."""
    return Acl(
        ResourceType(creation.resource_type),
        Pattern(getattr(creation, "resource_pattern_type", Pattern.LITERAL)),
        creation.resource_name,
        creation.principal,
        creation.host,
        Operation(creation.operation),
        Permission(creation.permission_type),
    )


def filter_in(wanted: Any) -> AclFilter:
    """ValueError if a number stands for nothing, or for what is not known."""
    found = AclFilter(
        ResourceType(wanted.resource_type_filter),
        Pattern(getattr(wanted, "pattern_type_filter", Pattern.LITERAL)),
        wanted.resource_name_filter,
        wanted.principal_filter,
        wanted.host_filter,
        Operation(wanted.operation),
        Permission(wanted.permission_type),
    )
    unknown = (ResourceType.UNKNOWN, Pattern.UNKNOWN, Operation.UNKNOWN, Permission.UNKNOWN)
    if any(one is of for one, of in zip((found[0], found[1], found[5], found[6]), unknown, strict=True)):
        raise ValueError("the filter has an element that is not known")
    return found


def acl_out(acl: Acl) -> Fields:
    return Fields(
        resource_type=int(acl.resource_type),
        resource_name=acl.resource,
        pattern_type=int(acl.pattern),
        principal=acl.principal,
        host=acl.host,
        operation=int(acl.operation),
        permission_type=int(acl.permission),
    )
