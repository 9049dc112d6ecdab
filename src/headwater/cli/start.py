"""headwater start: run a node until it is told to stop."""

import argparse
import json
import logging
import sys

from headwater.cli.arguments import Address, add_data, add_json, address, checked
from headwater.node import Node
from headwater.settings import HttpSettings, LogSettings, NodeSettings, WireSettings

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
        help="a name under which HTTP clients may reach the port, beside localhost and its address; may be repeated",
    )
    parser.add_argument(
        "--insecure-public-bind",
        action="store_true",
        help="allow an address that other machines can reach, although there is neither login nor encryption",
    )
    parser.add_argument(
        "--archive",
        metavar="URL",
        default="",
        help="where topics with remote.storage.enable keep sealed segments, as an fsspec URL "
        "(default: the folder archive of the data directory)",
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    node = Node(arguments.data, settings_from(arguments))
    node.run_forever(ready=lambda node: announce(node, as_json=arguments.json))
    return 0


def settings_from(arguments: argparse.Namespace) -> NodeSettings:
    return NodeSettings(
        log=LogSettings(archive_url=arguments.archive),
        wire=WireSettings(
            host=arguments.kafka.host,
            port=arguments.kafka.port,
            insecure_public_bind=arguments.insecure_public_bind,
        ),
        http=http_settings(arguments),
        captures=True,
        alerts=True,
    )


def address_or_off(text: str) -> Address | str:
    return OFF if text == OFF else address(text)


def http_settings(arguments: argparse.Namespace) -> HttpSettings | None:
    """An address that was said is the one that is taken; nobody should have to say one to start a second node."""
    if arguments.http == OFF:
        return None
    said = arguments.http or Address("127.0.0.1", HttpSettings.port)
    return HttpSettings(
        host=said.host,
        port=said.port,
        port_may_differ=arguments.http is None,
        insecure_public_bind=arguments.insecure_public_bind,
        allowed_hosts=tuple(arguments.http_host),
    )


def announce(node: Node, *, as_json: bool) -> None:
    data = str(node.data.resolve())
    if as_json:
        said = {"event": "ready", "kafka": node.kafka_address, "http": node.http_url or None, "data": data}
        print(json.dumps(said), flush=True)
    else:
        http = f", HTTP clients to {node.http_url}" if node.http_url else ""
        print(f"headwater is ready: Kafka clients connect to {node.kafka_address}{http}, data is in {data}", flush=True)
