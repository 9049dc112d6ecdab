"""headwater start: run a node until it is stopped."""

import argparse
import json
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from headwater.cli import log_lines
from headwater.cli.arguments import Address, add_data, add_json, address, addresses, checked, duration_seconds, positive
from headwater.cli.failure import sentence_of
from headwater.cli.security_arguments import add_security, security_settings
from headwater.clock import SystemClock
from headwater.errors import DataDirectoryLocked
from headwater.node import POSTGRESQL, SQLITE, Node
from headwater.settings import START_FAILED_FILE, HttpSettings, LogSettings, NodeSettings, WireSettings

OFF = "off"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_data(parser)
    parser.add_argument(
        "--kafka",
        metavar="HOST:PORT",
        type=checked(address),
        default=address("127.0.0.1:9092"),
        help="where Kafka clients connect (default: 127.0.0.1:9092); port 0 takes any free port",
    )
    parser.add_argument(
        "--log",
        dest="cluster",
        metavar="kafka://HOST:PORT[,...]",
        type=checked(addresses),
        help="write what is captured, and notifications to topics, to this Kafka cluster instead of the node's own log",
    )
    parser.add_argument(
        "--http",
        metavar="HOST:PORT",
        type=checked(address_or_off),
        help="where HTTP clients connect: schemas, records and webhooks (default: 127.0.0.1:8080, or a free port if "
        "that one is in use); port 0 takes any free port, off has none",
    )
    parser.add_argument(
        "--http-host",
        metavar="NAME",
        action="append",
        default=[],
        help="a name under which HTTP clients may reach the port, beside localhost and its address; every client "
        "then needs a token; may be repeated",
    )
    parser.add_argument(
        "--loopback-without-token",
        action="store_true",
        help="let programs of this machine use HTTP without a token even where tokens exist; never behind a proxy, "
        "whose requests all come from this machine",
    )
    parser.add_argument(
        "--insecure-public-bind",
        action="store_true",
        help="allow an address that other machines can reach, although there is neither login nor encryption",
    )
    add_security(parser)
    parser.add_argument(
        "--archive",
        metavar="URL",
        default="",
        help="where topics with remote.storage.enable keep sealed segments, as an fsspec URL "
        "(default: the folder archive of the data directory)",
    )
    add_broker_defaults(parser)
    parser.add_argument(
        "--views",
        choices=[SQLITE, POSTGRESQL],
        default="",
        help="where apps that name no store keep their views: files of SQLite, or a PostgreSQL on this machine that "
        "starts and stops with the node (default: as the data directory has it, at first sqlite)",
    )
    add_json(parser)
    parser.set_defaults(run=run)


def add_broker_defaults(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--num-partitions",
        metavar="N",
        type=checked(positive),
        default=WireSettings.default_partitions,
        help="partitions of a topic whose creator does not say how many, and of one that is made by naming it "
        f"(default: {WireSettings.default_partitions})",
    )
    parser.add_argument(
        "--consumer-session-timeout",
        metavar="TIME",
        type=checked(duration_seconds),
        default=WireSettings.group_consumer_session_timeout.total_seconds(),
        help="after this time without a heartbeat a member of a group of the consumer protocol is removed "
        "(default: 45s)",
    )
    parser.add_argument(
        "--consumer-heartbeat-interval",
        metavar="TIME",
        type=checked(duration_seconds),
        default=WireSettings.group_consumer_heartbeat_interval.total_seconds(),
        help="how often such a member sends a heartbeat, and learns of new assignments (default: 5s)",
    )


def run(arguments: argparse.Namespace) -> int:
    log_lines.set_up()
    node = Node(arguments.data, settings_from(arguments))

    def ready(node: Node) -> None:
        (node.data / START_FAILED_FILE).unlink(missing_ok=True)
        announce(node, as_json=arguments.json)

    try:
        node.run_forever(ready=ready)
    except DataDirectoryLocked:
        raise  # the directory has a node, and that one is well
    except Exception as error:
        note_failure(arguments.data, error)
        raise
    return 0


def note_failure(data: Path, error: Exception) -> None:
    """For a command that later starts a node of its own there: it warns that the real one does not run."""
    said = {"reason": sentence_of(error), "time_ms": SystemClock().now_ms()}
    with suppress(OSError):  # the directory may be what is wrong, and the error itself is what people have to see
        (data / START_FAILED_FILE).write_text(json.dumps(said) + "\n", encoding="utf-8")


def settings_from(arguments: argparse.Namespace) -> NodeSettings:
    return NodeSettings(
        log=LogSettings(archive_url=arguments.archive),
        wire=WireSettings(
            host=arguments.kafka.host,
            port=arguments.kafka.port,
            advertised_host=arguments.advertised_host,
            insecure_public_bind=arguments.insecure_public_bind,
            default_partitions=arguments.num_partitions,
            group_consumer_session_timeout=timedelta(seconds=arguments.consumer_session_timeout),
            group_consumer_heartbeat_interval=timedelta(seconds=arguments.consumer_heartbeat_interval),
        ),
        http=http_settings(arguments),
        security=security_settings(arguments),
        captures=True,
        alerts=True,
        views=arguments.views,
        cluster="" if arguments.cluster is None else str(arguments.cluster),
    )


def address_or_off(text: str) -> Address | str:
    return OFF if text == OFF else address(text)


def http_settings(arguments: argparse.Namespace) -> HttpSettings | None:
    """An explicit port is used as given; without one a second node takes any free port."""
    if arguments.http == OFF:
        return None
    said = arguments.http or Address("127.0.0.1", HttpSettings.port)
    return HttpSettings(
        host=said.host,
        port=said.port,
        port_may_differ=arguments.http is None,
        insecure_public_bind=arguments.insecure_public_bind,
        allowed_hosts=tuple(arguments.http_host),
        loopback_without_token=arguments.loopback_without_token,
    )


def announce(node: Node, *, as_json: bool) -> None:
    data = str(node.data.resolve())
    if as_json:
        said = {"event": "ready", "kafka": node.kafka_address, "http": node.http_url or None, "data": data}
        if node.views_address:
            said["views"] = node.views_address
        print(json.dumps(said), flush=True)
    else:
        http = f", HTTP clients to {node.http_url}" if node.http_url else ""
        views = f", views are in PostgreSQL at {node.views_address}" if node.views_address else ""
        print(
            f"headwater is ready: Kafka clients connect to {node.kafka_address}{http}{views}, data is in {data}",
            flush=True,
        )
