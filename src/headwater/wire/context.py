"""The context of a request, for its handler."""

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, ParamSpec, TypeVar

from headwater.access.audit import CHANGED, Event
from headwater.access.principals import ANONYMOUS, Principal
from headwater.errors import UnavailableError
from headwater.settings import WireSettings
from headwater.wire.shared import Shared

if TYPE_CHECKING:
    from headwater.log.log import Log
    from headwater.wire.authentication.session import Session
    from headwater.wire.group_service import GroupService
    from headwater.wire.permissions.permits import Permits
    from headwater.wire.security import Security

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Node(NamedTuple):
    """This server, at its advertised address."""

    id: int
    host: str
    port: int


@dataclass(slots=True, kw_only=True)
class Context:
    """One request's surroundings. Handlers run on the event loop: whatever may touch the disk goes through `run`."""

    api_version: int
    client_id: str | None
    client_host: str
    log: "Log"
    groups: "GroupService"
    settings: WireSettings
    node: Node
    executor: Executor | None = None
    shared: Shared = field(default_factory=Shared)
    security: "Security | None" = None
    session: "Session | None" = None
    """The login of the connection; None where there is none to be had."""
    permits: "Permits | None" = None
    """What the client may do; None: everything."""
    on_disconnect: dict[Hashable, Callable[[], None]] | None = None
    """Of the connection: what is to be done when it has ended, each under a key by which it can be taken back."""

    @property
    def principal(self) -> Principal:
        return ANONYMOUS if self.session is None else self.session.principal

    @property
    def secured(self) -> "Security":
        """UnavailableError on a port that was opened without users, permissions and quotas."""
        if self.security is None:
            raise UnavailableError("this port has neither users nor permissions")
        return self.security

    def note_change(self, operation: str, resource: str) -> None:
        """For the audit topic: an administrator has changed something."""
        if self.security is not None:
            self.security.audit.note(Event(CHANGED, str(self.principal), self.client_host, "", operation, resource))

    async def run(
        self, function: Callable[Parameters, Result], *args: Parameters.args, **named: Parameters.kwargs
    ) -> Result:
        """Run blocking code of the log on another thread. A disk that fails it is an UnavailableError."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self.executor, lambda: function(*args, **named))
        except OSError as error:
            raise UnavailableError(f"the disk failed: {error}") from error
