"""What people type, checked: addresses, durations, moments, starting points, settings."""

import argparse
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")
Run = Callable[[argparse.Namespace], int]
Actions: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

KAFKA_SCHEME = "kafka://"
DATA_VARIABLE = "HEADWATER_DATA"
SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Addresses(NamedTuple):
    """Of brokers of one cluster."""

    all: tuple[Address, ...]

    def __str__(self) -> str:
        return ",".join(map(str, self.all))


class Start(NamedTuple):
    """Where reading begins: exactly one of a named end, an offset, or a moment."""

    end: str = ""
    offset: int | None = None
    time_ms: int | None = None


def checked(parse: Callable[[str], T]) -> Callable[[str], T]:
    """For argparse, which shows our sentence instead of "invalid value"."""

    def convert(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def address(text: str) -> Address:
    """
    >>> address("127.0.0.1:9092")
    Address(host='127.0.0.1', port=9092)
    >>> address("[::1]:0").host
    '::1'
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:9092")
    return Address(host, int(port))


def addresses(text: str) -> Addresses:
    """
    >>> str(addresses("b1:9092,b2:9092")), str(addresses("kafka://b1:9092,b2:9092"))
    ('b1:9092,b2:9092', 'b1:9092,b2:9092')
    """
    text = text.removeprefix(KAFKA_SCHEME)
    return Addresses(tuple(address(one.strip()) for one in text.split(",")))


def duration_seconds(text: str) -> float:
    """
    >>> duration_seconds("1.5m")
    90.0
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", text)
    if not found:
        raise ValueError(f"{text!r} is not a duration, such as 60s, 5m or 1h")
    return float(found[1]) * SECONDS[found[2]]


def moment_ms(text: str) -> int:
    """Milliseconds since 1970 of an ISO 8601 time (UTC unless it says otherwise) or of a number that ends in ms.

    >>> moment_ms("1970-01-01T00:00:01+00:00"), moment_ms("1970-01-02"), moment_ms("1500ms")
    (1000, 86400000, 1500)
    """
    if re.fullmatch(r"\d+ms", text):
        return int(text[:-2])
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a time, such as 2026-01-31T12:00:00Z or 1700000000000ms") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def start(*ends: str) -> Callable[[str], Start]:
    """A starting point: one of the named ends, an offset, or a time.

    >>> start("beginning", "end")("beginning")
    Start(end='beginning', offset=None, time_ms=None)
    >>> start("beginning", "end")("42").offset
    42
    """

    def parse(text: str) -> Start:
        if text in ends:
            return Start(end=text)
        if text.isdigit():
            return Start(offset=int(text))
        try:
            return Start(time_ms=moment_ms(text))
        except ValueError:
            examples = "an offset such as 42, or a time such as 2026-01-31T12:00:00Z or 1700000000000ms"
            raise ValueError(f"{text!r} is not {', '.join(ends)}, {examples}") from None

    return parse


def setting(text: str) -> tuple[str, str]:
    """
    >>> setting("cleanup.policy=compact")
    ('cleanup.policy', 'compact')
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"{text!r} is not NAME=VALUE, such as retention.ms=3600000")
    return name, value


def positive(text: str) -> int:
    """
    >>> positive("3")
    3
    """
    if not text.isdigit() or int(text) == 0:
        raise ValueError(f"{text!r} is not a number above zero")
    return int(text)


def number(text: str) -> int:
    """
    >>> number("0")
    0
    """
    if not text.isdigit():
        raise ValueError(f"{text!r} is not a number of zero or more")
    return int(text)


def add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        metavar="DIR",
        type=Path,
        default=Path(os.environ.get(DATA_VARIABLE) or "data"),
        help=f"data directory (default: ${DATA_VARIABLE}, or data in the current folder)",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="write JSON, for scripts")


def add_connection(parser: argparse.ArgumentParser) -> None:
    """How a command finds the log: a node by its data directory or its address."""
    add_data(parser)
    parser.add_argument(
        "--log",
        "--kafka",
        dest="kafka",
        metavar="kafka://HOST:PORT[,...]",
        type=checked(addresses),
        help="the log: a node, or brokers of a Kafka cluster, at this address instead of the node that owns --data; "
        "kafka:// may be left out",
    )


def add_actions(parser: argparse.ArgumentParser) -> Actions:
    return parser.add_subparsers(dest="action", metavar="ACTION", required=True)


def add_action(actions: Actions, name: str, summary: str, run: Run) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
    parser.set_defaults(run=run)
    return parser
