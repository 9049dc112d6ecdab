"""Run by tests in the place of one of Spark's processes: shows what it was given, or waits."""

import json
import os
import signal
import sys

if __name__ == "__main__":
    if sys.argv[1] == "fork":
        if os.fork() == 0:
            signal.pause()
    elif sys.argv[1] == "wait":
        print(os.getpid(), flush=True)
        signal.pause()
    else:
        shown = {
            "arguments": sys.argv[1:], "word": os.environ.get("WORD"), "variables": len(os.environ),
            "folder": os.getcwd(), "input": sys.stdin.read(), "ready": "pyspark" in sys.modules,
        }  # fmt: skip
        print(json.dumps(shown))
        print("aside", file=sys.stderr)
        sys.exit(7)
