"""A process full of writers, to be killed: fifty threads on one stream that all want, and on a thousand others.

python -m tests.crash.streams.writers DATA HISTORY SEED

Each line of the history is one write to a file that is opened for appending, so that their order is that of time:

    begin  ID  STREAM  EXPECTED  REQUEST  | made  ID  VERSION | saw  ID  VERSION
"""

import os
import sys
import threading
from random import Random

from headwater.errors import WrongVersion
from headwater.log.log import Log
from headwater.log.streams import partition_streams
from headwater.log.streams.condition import Append, StreamWrite
from headwater.log.streams.event import NewEvent
from headwater.log.streams.event_topic import EventTopic
from headwater.settings import LogSettings

THREADS, STREAMS, TOPIC = 50, 1000, "written"


class Writer(threading.Thread):
    def __init__(self, number: int, topic: EventTopic, history: int, seed: int, unknown: list[list[str]]) -> None:
        super().__init__(daemon=True)
        self._name, self._topic, self._history = f"{seed}.{number}", topic, history
        self._random, self._unknown, self._count = Random(f"{seed}.{number}"), unknown, 0

    def run(self) -> None:
        for _, _, stream, expected, request in self._unknown:  # those of the process before, which was killed
            self._append(stream, int(expected), request)
        while True:
            stream = "hot" if self._random.random() < 0.5 else f"s{self._random.randrange(STREAMS)}"
            version = self._read(stream)
            self._append(stream, version, f"r{self._name}.{self._count}")

    def _say(self, *words: object) -> None:
        os.write(self._history, (" ".join(map(str, words)) + "\n").encode())

    def _begin(self, stream: str, expected: object, request: str) -> str:
        self._count += 1
        id = f"{self._name}.{self._count}"
        self._say("begin", id, stream, expected, request)
        return id

    def _read(self, stream: str) -> int:
        id = self._begin(stream, "-", "-")
        version = max(
            (one.version for one in self._topic.read(stream, after=max(0, self._topic.version(stream) - 1))), default=0
        )
        self._say("saw", id, version)
        return version

    def _append(self, stream: str, expected: int, request: str) -> None:
        id = self._begin(stream, expected, request)
        try:
            write = StreamWrite(stream, [NewEvent("Written", b"{}")], expected)
            self._say("made", id, self._topic.append(Append((write,), request)).version(stream))
        except WrongVersion as wrong:
            self._say("saw", id, wrong.actual)


def main(data: str, history: str, seed: str) -> None:
    partition_streams.SAVED_EVERY = 50  # so that kills meet the saving of the index, too
    sys.setswitchinterval(1e-6)  # threads take turns at every chance
    log = Log.open(data, settings=LogSettings(unflushed_bytes_max=50_000))
    topics = [EventTopic.open(log, TOPIC), EventTopic.open(log, TOPIC)]  # which do not know of each other
    file = os.open(history, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    unknown = unanswered(history)
    for number in range(THREADS):
        Writer(number, topics[number % 2], file, int(seed), unknown[number::THREADS]).start()
    print("ready", flush=True)
    threading.Event().wait()


def unanswered(history: str) -> list[list[str]]:
    """Appends that no process has been answered for, nor tried again."""
    begun: dict[str, list[str]] = {}
    with open(history) as lines:
        for line in lines:
            words = line.split()
            if words[0] == "begin" and words[4] != "-":
                begun[words[1]] = words
            elif words[0] != "begin":
                begun.pop(words[1], None)
    return list({words[4]: words for words in begun.values()}.values())


if __name__ == "__main__":
    main(*sys.argv[1:])
