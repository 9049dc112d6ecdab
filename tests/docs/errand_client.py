"""Hands a command over to the process of the test (errands.py), and says what came of it.

python errand_client.py PORT ARGUMENTS OF HEADWATER ...
"""

import json
import os
import socket
import sys


def main(port: str, *words: str) -> int:
    with socket.create_connection(("127.0.0.1", int(port))) as asking, asking.makefile("rw") as lines:
        lines.write(json.dumps({"folder": os.getcwd(), "words": words}) + "\n")
        lines.flush()
        done = json.load(lines)
    sys.stdout.write(done["output"])
    sys.stderr.write(done["errors"])
    return int(done["code"])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
