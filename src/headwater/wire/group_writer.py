"""Writing down what groups commit and decide, without making the event loop wait.

Whatever arrives while a write is under way is written together by the next one: many commits, one sync. Work on one
group is done in the order in which it was asked for.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby

from headwater.errors import HeadwaterError, LogClosed, UnavailableError
from headwater.log.groups.entry import Entry
from headwater.log.groups.journal import partition_for
from headwater.log.groups.offsets import CommittedOffset, GroupOffsets
from headwater.record import TopicPartition

logger = logging.getLogger("headwater.wire")

# Whatever went wrong: nothing was acknowledged, and no request may wait for ever.
UNFORESEEN = "the group could not be written down"

Refused = dict[TopicPartition, HeadwaterError]
"""Partitions whose offsets could not be committed, and why."""


@dataclass(kw_only=True)
class _Work:
    """One thing to write. Its answer is whether it failed as a whole, and what of it was refused."""

    group: str
    answer: "asyncio.Future[HeadwaterError | Refused]"
    offsets: Mapping[TopicPartition, CommittedOffset] = field(default_factory=dict)
    entries: Sequence[Entry] = ()
    deletes: bool = False
    partitions: Collection[TopicPartition] | None = None


class GroupWriter:
    """Lives on the event loop; the disk is touched on threads of its own."""

    def __init__(self, offsets: GroupOffsets, *, queues: int) -> None:
        self._offsets, self._queues = offsets, queues
        self._executor = ThreadPoolExecutor(queues, thread_name_prefix="headwater-groups")
        self._waiting: dict[int, list[_Work]] = {}
        self._running: dict[int, asyncio.Task[None]] = {}
        self._closed = False

    def commit(
        self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> "asyncio.Future[HeadwaterError | Refused]":
        return self._enqueue(_Work(group=group, answer=_future(), offsets=offsets))

    def save(self, group: str, entries: Sequence[Entry]) -> "asyncio.Future[HeadwaterError | Refused]":
        return self._enqueue(_Work(group=group, answer=_future(), entries=entries))

    def delete(
        self, group: str, partitions: Collection[TopicPartition] | None = None
    ) -> "asyncio.Future[HeadwaterError | Refused]":
        """Forget offsets of these partitions, or everything about the group."""
        return self._enqueue(_Work(group=group, answer=_future(), deletes=True, partitions=partitions))

    async def close(self) -> None:
        """Finish what was begun; refuse what comes after."""
        self._closed = True
        while self._running:
            await asyncio.gather(*self._running.values())
        self._executor.shutdown(wait=False)

    def _enqueue(self, work: _Work) -> "asyncio.Future[HeadwaterError | Refused]":
        if self._closed:
            work.answer.set_result(LogClosed())
            return work.answer
        queue = partition_for(work.group, self._queues)
        self._waiting.setdefault(queue, []).append(work)
        if queue not in self._running:
            self._running[queue] = asyncio.get_running_loop().create_task(self._drain(queue))
        return work.answer

    async def _drain(self, queue: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            while works := self._waiting.pop(queue, []):
                answers = await loop.run_in_executor(self._executor, self._perform, works)
                for work, answer in zip(works, answers, strict=True):
                    if not work.answer.done():  # the request's client may have disconnected
                        work.answer.set_result(answer)
        finally:
            del self._running[queue]

    # On a thread

    def _perform(self, works: list[_Work]) -> list[HeadwaterError | Refused]:
        answers: list[HeadwaterError | Refused] = []
        for deletes, run in groupby(works, lambda work: work.deletes):
            if deletes:
                answers += [self._delete(work) for work in run]
            else:
                answers += self._write(list(run))
        return answers

    def _write(self, works: Sequence[_Work]) -> list[HeadwaterError | Refused]:
        entries: list[Entry] = []
        answers: list[HeadwaterError | Refused] = []
        try:
            for work in works:
                refused = self._offsets.secure(work.offsets)
                accepted = {where: offset for where, offset in work.offsets.items() if where not in refused}
                entries += self._offsets.commit_entries(work.group, accepted)
                entries += work.entries
                answers.append(refused)
            self._offsets.write(entries)
        except HeadwaterError as error:
            return [error] * len(works)
        except Exception:
            logger.exception(UNFORESEEN)
            return [UnavailableError(UNFORESEEN)] * len(works)
        return answers

    def _delete(self, work: _Work) -> HeadwaterError | Refused:
        try:
            self._offsets.delete(work.group, work.partitions)
        except HeadwaterError as error:
            return error
        except Exception:
            logger.exception(UNFORESEEN)
            return UnavailableError(UNFORESEEN)
        return {}


def _future() -> "asyncio.Future[HeadwaterError | Refused]":
    return asyncio.get_running_loop().create_future()
