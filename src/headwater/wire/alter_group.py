"""Changing the settings of a share group on behalf of a client. They may be given before the group has a member."""

from collections.abc import Callable, Mapping

from headwater.errors import HeadwaterError, InvalidGroup, UnknownQueue
from headwater.log.queues.queues import Queues
from headwater.log.queues.settings import QueueSettings
from headwater.wire.alter_topic import Refusal
from headwater.wire.config_changes import Changes
from headwater.wire.context import Context
from headwater.wire.protocol.error_codes import error_code


async def alter_group(
    context: Context, name: str, changes: Callable[[Mapping[str, str]], Changes], *, validate_only: bool
) -> Refusal:
    """`changes` is given what is set now."""
    try:
        if not name:
            raise InvalidGroup(name, "it is empty")
        await context.run(_alter, context.groups.share.queues, name, changes, validate_only=validate_only)
    except HeadwaterError as error:
        return Refusal(error_code(error), str(error))
    return Refusal()


def _alter(
    queues: Queues, name: str, changes: Callable[[Mapping[str, str]], Changes], *, validate_only: bool
) -> None:  # fmt: skip
    try:
        configs: Mapping[str, str] = queues.get(name).configs
    except UnknownQueue:
        configs = {}
    wanted = {**configs, **changes(configs)}
    kept = {key: value for key, value in wanted.items() if value is not None}
    QueueSettings.from_configs(kept)
    if not validate_only:
        queues.ensure(name).configure(kept)
