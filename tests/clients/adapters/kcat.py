"""kcat, from the command line: the older librdkafka that distributions carry."""

import functools
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.clients.brokers.maven import alone
from tests.clients.brokers.process import NotAvailable
from tests.clients.client import EARLIEST, LATEST, Client, Refused, TopicDescription
from tests.clients.membership import Membership
from tests.clients.message import PLAINLY, Header, Message, Producing, Receipt
from tests.clients.numbered_values import digest, numbered_values
from tests.waiting import Alarm

# Lengths come first, so that any bytes may follow; a length of -1 is null.
FORMAT = "%p %o %T %K %S\n%k%s\n%h\n"
KEY_END, MESSAGE_END = "\x1f", "\x1e"
PLACES = {EARLIEST: -2, LATEST: -1}

CODES = {
    "Offset out of range": 1,
    "Unknown topic or partition": 3,
    "Unknown topic": 3,
    "Message size too large": 10,
}


@functools.cache
def kcat_command() -> str:
    """Where kcat is; installs Debian's package when that is possible."""
    if found := shutil.which("kcat"):
        return found
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise NotAvailable("kcat is not installed, and installing it takes apt-get and root.")
    with alone("apt"):
        for command in (
            ["apt-get", "install", "-y", "kcat"],
            ["apt-get", "update"],
            ["apt-get", "install", "-y", "kcat"],
        ):
            subprocess.run(
                command, capture_output=True, check=False, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            )
            if found := shutil.which("kcat"):
                return found
    raise NotAvailable("kcat could not be installed with apt-get.")


class Kcat(Client):
    name = "kcat"
    features = frozenset({"static", "cooperative", "refusals"})

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._command = kcat_command()

    def sendable(self, messages: Sequence[Message]) -> list[Message]:
        return [message for message in messages if speakable(message)]

    def readable(self, messages: Sequence[Message]) -> list[Message]:
        return [replace(message, headers=shown(message.headers)) for message in messages]

    def produce(self, topic: str, messages: Sequence[Message], how: Producing = PLAINLY) -> list[Receipt]:
        settings = {
            "acks": how.acks,
            "enable.idempotence": str(how.idempotent).lower(),
            "message.max.bytes": how.bytes_max,
            "message.timeout.ms": 25_000,
        }
        codec = [] if how.compression == "none" else ["-z", how.compression]
        # Partition and headers are given once per run of kcat, so each stretch that shares them is one run.
        for (partition, headers), stretch in itertools.groupby(messages, key=lambda one: (one.partition, one.headers)):
            named = [f"-H{name}={(value or b'').decode()}" for name, value in headers]
            delimiters = [f"-K{KEY_END}", f"-D{MESSAGE_END}", "-Z"]
            options = ["-P", "-t", topic, "-p", str(partition), *delimiters, *named, *codec]
            self._run([*options, *flags(settings)], MESSAGE_END.encode().join(spoken(message) for message in stretch))
        return []

    def fetch(self, topic: str, partition: int, offset: int, count: int, *, seconds: float = 20) -> list[Message]:
        options = [
            "-C",
            "-q",
            "-t",
            topic,
            "-p",
            str(partition),
            "-o",
            str(offset),
            "-c",
            str(count),
            "-u",
            "-f",
            FORMAT,
        ]
        settings = {"auto.offset.reset": "error", "topic.metadata.refresh.interval.ms": 500}
        return list(parsed(self._run([*options, *flags(settings)], seconds=seconds)))

    def read_as_group(self, topic: str, group: str, count: int) -> list[Message]:
        settings = {"auto.offset.reset": "earliest", "session.timeout.ms": 6000}
        options = ["-q", "-c", str(count), "-u", "-f", FORMAT, *flags(settings), "-G", group, topic]
        return list(parsed(self._run(options, seconds=20)))

    def offset_at(self, topic: str, partition: int, place: str | int) -> int | None:
        answer = self._run(["-Q", "-t", f"{topic}:{partition}:{PLACES.get(str(place), place)}"]).decode()
        found = re.search(r"offset (-?\d+)", answer)
        return int(found[1]) if found and int(found[1]) >= 0 else None

    def topics(self) -> Mapping[str, int]:
        return {topic["topic"]: len(topic["partitions"]) for topic in self._metadata()}

    def describe_topic(self, name: str) -> TopicDescription:
        (topic,) = self._metadata("-t", name)
        partitions = {one["partition"]: one for one in topic["partitions"]}
        return TopicDescription(
            {index: one["leader"] for index, one in partitions.items()},
            {index: [replica["id"] for replica in one["replicas"]] for index, one in partitions.items()},
            {index: [replica["id"] for replica in one["isrs"]] for index, one in partitions.items()},
        )

    def write_numbered(self, topic: str, partitions: int, count: int) -> None:
        for partition in range(partitions):
            lines = b"\n".join(numbered_values(partition, count))
            self._run(["-P", "-t", topic, "-p", str(partition), "-X", "enable.idempotence=true"], lines, seconds=80)

    def read_digests(self, topic: str, partitions: int, count: int) -> Mapping[int, str]:
        digests = {}
        for partition in range(partitions):
            options = ["-C", "-q", "-t", topic, "-p", str(partition), "-o", "beginning", "-c", str(count)]
            digests[partition] = digest(self._run(options, seconds=80).splitlines())
        return digests

    def member_command(self, membership: Membership) -> list[str]:
        settings: dict[str, object] = {
            "auto.offset.reset": "earliest",
            "session.timeout.ms": membership.session_ms,
            "heartbeat.interval.ms": membership.heartbeat_ms,
            "auto.commit.interval.ms": 200,
        }
        if membership.instance_id:
            settings["group.instance.id"] = membership.instance_id
        if membership.cooperative:
            settings["partition.assignment.strategy"] = "cooperative-sticky"
        reading = ["-u", "-f", "read %p %o\n", "-G", membership.group, membership.topic]
        return [self._command, "-b", self.bootstrap, *flags(settings), *reading]

    def _metadata(self, *options: str) -> list[dict[str, Any]]:
        topics: list[dict[str, Any]] = json.loads(self._run(["-L", "-J", *options]))["topics"]
        return topics

    def _run(self, options: Sequence[str], standard_input: bytes = b"", *, seconds: float = 40) -> bytes:
        """What kcat printed, also when it was still waiting for more at the end of the given time."""
        command = [self._command, "-b", self.bootstrap, *options]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        alarm = Alarm(seconds, process.kill)
        output, errors = process.communicate(standard_input)
        alarm.cancel()
        if process.returncode == -signal.SIGKILL:
            return output
        complaint = errors.decode(errors="replace")
        if process.returncode != 0 or "failed" in complaint:
            code = next((code for text, code in CODES.items() if text in complaint), -1)
            raise Refused(code, complaint)
        return output


def flags(settings: Mapping[str, object]) -> list[str]:
    return [part for name, value in settings.items() for part in ("-X", f"{name}={value}")]


def speakable(message: Message) -> bool:
    """kcat cannot name a time, nor tell an empty key or value from none, nor send headers that are not text."""
    plain_headers = all(value and value.isascii() and value.decode().isprintable() for _, value in message.headers)
    delimiters = (KEY_END.encode(), MESSAGE_END.encode())
    content = (message.key or b"") + (message.value or b"")
    delimited = any(delimiter in content for delimiter in delimiters)
    nothing = message.key == b"" or message.value == b"" or (message.key is None and message.value is None)
    return message.timestamp_ms is None and plain_headers and not delimited and not nothing


def shown(headers: tuple[Header, ...]) -> tuple[Header, ...]:
    """kcat prints a header's value as far as its first zero byte."""
    return tuple((name, value and value.partition(b"\0")[0]) for name, value in headers)


def spoken(message: Message) -> bytes:
    key = b"" if message.key is None else message.key + KEY_END.encode()
    return key + (message.value or b"")


def parsed(output: bytes) -> Iterator[Message]:
    place = 0
    while (line_end := output.find(b"\n", place)) >= 0:
        partition, offset, timestamp_ms, key_length, value_length = map(int, output[place:line_end].split())
        key_end = line_end + 1 + max(0, key_length)
        value_end = key_end + max(0, value_length)
        headers_end = output.index(b"\n", value_end + 1)
        yield Message(
            value=None if value_length < 0 else output[key_end:value_end],
            key=None if key_length < 0 else output[line_end + 1 : key_end],
            headers=parsed_headers(output[value_end + 1 : headers_end]),
            timestamp_ms=timestamp_ms,
            partition=partition,
            offset=offset,
        )
        place = headers_end + 1


def parsed_headers(text: bytes) -> tuple[Header, ...]:
    pairs = [part.partition(b"=") for part in text.split(b",") if part]
    return tuple((name.decode(), None if value == b"NULL" else value) for name, _, value in pairs)
