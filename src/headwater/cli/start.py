"""headwater start: run a node until it is told to stop."""

import argparse
import json
import logging
import sys

from headwater.cli.arguments import add_data, add_json, address, checked
from headwater.node import Node
from headwater.settings import LogSettings, NodeSettings, WireSettings


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
    )


def announce(node: Node, *, as_json: bool) -> None:
    data = str(node.data.resolve())
    if as_json:
        print(json.dumps({"event": "ready", "kafka": node.kafka_address, "data": data}), flush=True)
    else:
        print(f"headwater is ready: Kafka clients connect to {node.kafka_address}, data is in {data}", flush=True)
