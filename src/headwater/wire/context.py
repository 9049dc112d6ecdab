"""The context of a request, for its handler."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, ParamSpec, TypeVar

from headwater.errors import UnavailableError
from headwater.settings import WireSettings
from headwater.wire.shared import Shared

if TYPE_CHECKING:
    from headwater.log.log import Log
    from headwater.wire.group_service import GroupService

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

    async def run(
        self, function: Callable[Parameters, Result], *args: Parameters.args, **named: Parameters.kwargs
    ) -> Result:
        """Run blocking code of the log on another thread. A disk that fails it is an UnavailableError."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self.executor, lambda: function(*args, **named))
        except OSError as error:
            raise UnavailableError(f"the disk failed: {error}") from error
