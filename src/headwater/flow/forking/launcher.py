"""What Spark starts in the place of Python: asks the fork server for a process, and lives as long as that does.

Run with nothing but the standard library, because Spark waits for it. Arguments: the server's socket, then those that
Spark gives to Python. The server gets them with the environment, the working directory and the three standard streams.
Where it does not answer, this becomes the Python that Spark asked for.
"""

import array
import json
import os
import socket
import sys

STARTED = b"s"
"""What a forked process says first; what it says last is its exit code, one byte."""


def main() -> None:
    path, arguments = sys.argv[1], sys.argv[2:]
    code = launched(path, arguments[1:]) if arguments[:1] == ["-m"] else None
    if code is not None:
        sys.exit(code)
    os.execv(sys.executable, [sys.executable, *arguments])


def launched(path: str, arguments: list[str]) -> int | None:
    """The exit code of a process made by the server; None if there is no server."""
    said = json.dumps({"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd()}).encode()
    streams = array.array("i", [0, 1, 2])
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(path)
            length = len(said).to_bytes(4, "big")
            connection.sendmsg([length], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
            connection.sendall(said)
            if connection.recv(1) != STARTED:
                return None
            return (connection.recv(1) or b"\1")[0]
    except OSError:
        return None


if __name__ == "__main__":
    main()
