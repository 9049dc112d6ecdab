"""A node that looks after alerts, in a process that can be killed: python -m tests.alerts.node_process DATA."""

import sys

from headwater.node import Node
from headwater.settings import HttpSettings, NodeSettings, WireSettings


def main() -> None:
    settings = NodeSettings(wire=WireSettings(port=0), http=HttpSettings(port=0), alerts=True)
    node = Node(sys.argv[1], settings)
    node.run_forever(ready=lambda node: print("ready", flush=True))


if __name__ == "__main__":
    main()
