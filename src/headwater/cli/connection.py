"""How a command reaches the log.

One way for all of them: a Kafka client. It talks to the address that --kafka names, or to the node that owns the
data directory, or, where no node runs there, to one that is started on a free loopback port for as long as the command
lives.
"""

import argparse
import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

from headwater.cli.arguments import Address, address
from headwater.cli.failure import Failure
from headwater.errors import DataDirectoryLocked
from headwater.kafka_login import local_login
from headwater.log.locks import locked as locked
from headwater.settings import LOCAL_TOKEN_FILE, NODE_FILE, START_FAILED_FILE, HttpSettings, NodeSettings, WireSettings

# A node that has just been started owns the lock a moment before it can be reached.
PATIENCE_SECONDS = 10.0
PAUSE_SECONDS = 0.1
LOCK_FILE = ".lock"


class OwnNode(NamedTuple):
    """A node that a command started for itself."""

    address: str
    left_by: str
    """Who served the data directory before and was not stopped: its process and address; "" if it was."""
    failed_start: str = ""
    """Why the last "headwater start" on the data directory failed; "" if it did not."""


@contextmanager
def reach(
    arguments: argparse.Namespace,
    *,
    create: bool = False,
    captures: bool = False,
    alerts: bool = False,
    http: bool | HttpSettings = False,
    started: Callable[[OwnNode], None] = lambda node: None,
) -> Iterator[str]:
    """The address to talk to. A data directory that does not exist is an error, unless `create`.

    A node that is started for the command runs captures and alerts, and has an HTTP port, only if the command wants
    them; one that runs captures runs alerts too. `started` is called with it.
    """
    if arguments.kafka is not None:
        check_listening(arguments.kafka.all)
        beside = captures or alerts or http is not False
        with node_beside(arguments, captures, alerts, http) if beside else nullcontext():
            yield str(arguments.kafka)
        return
    if not create and not arguments.data.is_dir():
        raise Failure(
            f"there is no data directory {arguments.data}. Say where the data is with --data DIR, "
            "or which node to talk to with --kafka HOST:PORT"
        )
    if locked(arguments.data / LOCK_FILE) and (owner := read_node_file(arguments.data)) and listening(owner):
        with login_of(arguments.data):
            yield str(owner)
        return
    # Loaded only when it is needed: a command that finds a node should not wait for a server to be loaded.
    from headwater.node import Node

    left_by = left_behind(arguments.data)
    node = Node(arguments.data, own_settings(captures, alerts, http))
    try:
        node.start()
    except DataDirectoryLocked as refusal:
        address = address_of_owner(arguments.data, refusal)
        with login_of(arguments.data):
            yield address
        return
    try:
        started(OwnNode(node.kafka_address, left_by, failed_start(arguments.data)))
        yield node.kafka_address
    finally:
        node.stop()


def own_settings(captures: bool, alerts: bool, http: bool | HttpSettings, cluster: str = "") -> NodeSettings:
    own = http if isinstance(http, HttpSettings) else HttpSettings(port=0) if http else None
    return NodeSettings(
        wire=WireSettings(port=0), http=own, captures=captures, alerts=captures or alerts, cluster=cluster
    )


@contextmanager
def node_beside(
    arguments: argparse.Namespace, captures: bool, alerts: bool, http: bool | HttpSettings
) -> Iterator[None]:
    """Beside a Kafka cluster, what a node does for an app: the one of the data directory, if it writes there, or one
    that lives as long as the command."""
    from headwater.node import Node

    cluster = str(arguments.kafka)
    node = Node(arguments.data, own_settings(captures, alerts, http, cluster))
    try:
        node.start()
    except DataDirectoryLocked:
        if captures and cluster_of(arguments.data) != cluster:
            raise Failure(
                f"the node of {arguments.data} keeps what it captures in a log of its own, and the flows are to read "
                f'{cluster}. Start it with "headwater start --log kafka://{cluster}"'
            ) from None
        yield
        return
    try:
        yield
    finally:
        node.stop()


def cluster_of(data: Path) -> str:
    """The Kafka cluster that the node of a data directory writes to; "" for its own log."""
    try:
        return str(json.loads((data / NODE_FILE).read_text(encoding="utf-8")).get("cluster", ""))
    except (OSError, ValueError, AttributeError):
        return ""


def address_of_owner(data: Path, refusal: DataDirectoryLocked) -> str:
    """Where the node that owns a data directory can be reached; it may still be starting."""
    pause = threading.Event()
    for _ in range(round(PATIENCE_SECONDS / PAUSE_SECONDS)):
        found = read_node_file(data)
        if found is not None and listening(found):
            return str(found)
        pause.wait(PAUSE_SECONDS)
    # Its owner has no Kafka port: a program that opened the log in its own process.
    raise refusal


def read_node_file(data: Path) -> Address | None:
    """What the owner of the lock says about itself; a file left by a killed node says nothing about today's owner."""
    try:
        said = json.loads((data / NODE_FILE).read_text(encoding="utf-8"))
        owner = (data / LOCK_FILE).read_text(encoding="utf-8").strip()
        return address(str(said["kafka"])) if str(said["process"]) == owner else None
    except (OSError, ValueError, KeyError, TypeError):
        return None  # not written yet, or just being removed


def login_of(data: Path) -> AbstractContextManager[None]:
    """Logs in to the node that owns the data directory with the token of this machine, if it demands a login."""
    try:
        demanded = json.loads((data / NODE_FILE).read_text(encoding="utf-8")).get("login") is True
    except (OSError, ValueError, AttributeError):
        demanded = False
    return local_login(data / LOCAL_TOKEN_FILE) if demanded else nullcontext()


def left_behind(data: Path) -> str:
    """What a node that was killed said about itself; a node that is stopped takes that away.

    Only while no node owns the data directory: a node that starts removes it too.
    """
    try:
        said = json.loads((data / NODE_FILE).read_text(encoding="utf-8"))
        return f"process {said['process']} at {said['kafka']}"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def failed_start(data: Path) -> str:
    """Why the last "headwater start" failed; one that succeeds takes that away, a node of a single command does not."""
    file = data / START_FAILED_FILE
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))["reason"])
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, KeyError, TypeError):
        return f"{file} says why, and cannot be read."


def http_url(data: Path) -> str:
    """Where the node that owns a data directory answers HTTP; "" if it does not."""
    try:
        said = json.loads((data / NODE_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return str(said.get("http", ""))


def listening(where: Address) -> bool:
    try:
        socket.create_connection((where.host, where.port), timeout=2).close()
    except OSError:
        return False
    return True


def check_listening(brokers: Sequence[Address]) -> None:
    """Failure if none of them answers."""
    if any(listening(one) for one in brokers):
        return
    if len(brokers) == 1:
        where = brokers[0]
        raise Failure(f'nothing answers at {where}. Start a node there with "headwater start --kafka {where}"')
    raise Failure(f"nothing answers at any of {', '.join(map(str, brokers))}")
