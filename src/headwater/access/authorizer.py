"""Who may do what: super users, then the ACLs that the store holds. Decisions are kept until the store changes."""

from collections import OrderedDict
from collections.abc import Collection

from headwater.access.acls import CLUSTER_NAME, NAME_LENGTH_MAX, Operation, ResourceType, decide, may_on_any
from headwater.access.principals import LOCAL, Principal
from headwater.access.store import AccessStore
from headwater.log.topic import ACCESS_TOPIC, AUDIT_TOPIC

DECISIONS_MAX = 20_000
NO_NAME = ""
"""Of a resource that only an ACL for all of its type is about."""

Question = tuple[Principal, str, Operation, ResourceType, str]


class Authorizer:
    """Used on one event loop: each port has its own."""

    def __init__(self, store: AccessStore, super_users: Collection[Principal], *, without_acl: bool) -> None:
        self._store, self._without_acl = store, without_acl
        self._super_users = frozenset({*super_users, LOCAL})
        self._decisions: OrderedDict[Question, bool] = OrderedDict()
        self._version = -1

    def is_super_user(self, principal: Principal) -> bool:
        return principal in self._super_users

    def allowed(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        if principal in self._super_users:
            return True
        if self._store.version != self._version:
            self._decisions.clear()
            self._version = self._store.version
        question = (principal, host, operation, resource_type, name)
        kept = self._decisions.get(question)
        if kept is not None:
            return kept
        found = self._decide(question)
        if len(name) > NAME_LENGTH_MAX:
            return found  # no resource has such a name: decisions about made-up ones would fill the memory
        self._decisions[question] = found
        if len(self._decisions) > DECISIONS_MAX:
            self._decisions.popitem(last=False)
        return found

    def _decide(self, question: Question) -> bool:
        principal, host, operation, resource_type, name = question
        if self._store.doubt:
            return False
        with self._store.lock:
            acls = self._store.index.for_resource(resource_type, name)
        # What has no ACL may be free for all, but never what says who may do what, and what they did.
        free = self._without_acl and name not in (ACCESS_TOPIC, AUDIT_TOPIC, CLUSTER_NAME)
        return decide(acls, str(principal), host, operation, without_acl=free)

    def allowed_on_any(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Is there anything of this type on which the principal may do this?"""
        if principal in self._super_users:
            return True
        if self._store.doubt:
            return False
        with self._store.lock:
            acls = self._store.index.for_type(resource_type)
            of_all = self._store.index.for_resource(resource_type, NO_NAME)
        # What no ACL is about is free; unless one is about everything.
        free = self._without_acl and decide(of_all, str(principal), host, operation, without_acl=True)
        return free or may_on_any(acls, str(principal), host, operation)
