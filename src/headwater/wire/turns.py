"""Long work on the event loop, a piece at a time."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

Item = TypeVar("Item")

TURN_ITEMS = 200


async def in_turns(items: Iterable[Item], turn: int = TURN_ITEMS) -> AsyncIterator[Item]:
    """The same items, with a turn for others after some of them: a request may name a hundred thousand things."""
    for number, item in enumerate(items, 1):
        yield item
        if number % turn == 0:
            await asyncio.sleep(0)
