"""The test kit: what headwater's own tests use, for the tests of its users.

>>> with running_node() as node:
...     node.log.create_topic("orders").partitions    # and any Kafka client can connect to node.kafka_address
1
"""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.clock import ManualClock
from headwater.log.storage.memory import MemoryStorage
from headwater.log.storage.simulated import Fault, SimulatedDisk
from headwater.settings import HttpSettings, NodeSettings

if TYPE_CHECKING:
    from headwater.flow.declare.app import App
    from headwater.flow.run.app_tester import AppTester
    from headwater.flow.session import SparkSession
    from headwater.node import Node

__all__ = ["Fault", "ManualClock", "MemoryStorage", "SimulatedDisk", "running_app", "running_node"]


@contextmanager
def running_node(data: str | Path | None = None, settings: NodeSettings | None = None) -> "Iterator[Node]":
    """A node in this process, on a port that is free, stopped at the end of the block.

    Its data lies in the folder given, or in one that is removed at the end. The port in the settings is not used: two
    tests may run at once.
    """
    from headwater.node import Node  # the server, and all it needs, only for those who start one

    settings = settings or NodeSettings()
    http = settings.http and replace(settings.http, port=0)
    anywhere = replace(settings, wire=replace(settings.wire, port=0), http=http)
    with tempfile.TemporaryDirectory(prefix="headwater-") as folder, Node(data or folder, anywhere) as node:
        yield node


@contextmanager
def running_app(
    app: "App", data: str | Path | None = None, *, spark: bool = False, state: str = ""
) -> "Iterator[AppTester]":
    """An app on a node: feed rows, run, look at views, topics and accounts.

    Jobs run in this process where what they compute can be computed without Spark. For the others, and for what
    compares with Spark, it is started once, which takes some seconds; `needs_spark` of the tester says why. A session
    that the process has already is used. With `spark` all jobs run on Spark. `state` is where jobs are kept, as of
    `headwater run --state`.
    """
    from headwater.flow.declare.topology.registered import asks_the_node
    from headwater.flow.run.app_tester import AppTester
    from headwater.flow.session import session_for

    settings = NodeSettings(http=HttpSettings() if asks_the_node(app) else None)
    with running_node(data, settings) as node, ExitStack() as ending:

        def start() -> "SparkSession":
            return ending.enter_context(session_for(app.name, node.data / "flows"))

        yield AppTester(app, node, start() if spark else start, state=state)
