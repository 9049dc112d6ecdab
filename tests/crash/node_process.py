"""A node to be killed: small files, and upkeep all the time, so that every moment is a bad one.

python -m tests.crash.node_process DATA PORT
"""

import json
import os
import sys
from datetime import timedelta

import headwater.log.compactor  # noqa: F401 (loaded now: a node that lives for a second should spend it compacting)
from headwater.node import Node
from headwater.settings import LogSettings, NodeSettings, WireSettings

SETTINGS = LogSettings(
    maintenance_interval=timedelta(milliseconds=100),
    unflushed_bytes_max=100_000,
    compaction_memory_bytes=64 * 1024,
    offsets_partitions=2,
)


def main(data: str, port: str) -> None:
    node = Node(data, NodeSettings(log=SETTINGS, wire=WireSettings(port=int(port), auto_create_topics=False)))
    node.run_forever(ready=lambda node: print(json.dumps({"process": os.getpid()}), flush=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
