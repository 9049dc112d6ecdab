"""The process that all of Spark's Python processes are forked from, on one machine.

Spark starts a Python for every kind of work: to look for data sources, to make one, to plan, to read, for functions of
the user. Each would import pyspark, pyarrow and numba again, one after the other, while the first batch waits.

    driver ── standard input, open as long as it lives ──► server ──fork──► process
    Spark  ── starts ──► launcher ── its arguments, environment and streams, by socket ──┘

A forked process ends with its launcher: the kernel signals it when the other end of the socket is closed.
"""

import array
import fcntl
import json
import os
import runpy
import select
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

from headwater.flow.forking.launcher import STARTED

REQUEST_BYTES_MAX = 16 * 1024**2
STREAMS = 3


def serve(listener: socket.socket) -> None:
    """Fork a process for each connection, until the process that started this one has ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    poller = select.poll()
    poller.register(0, select.POLLIN)
    poller.register(listener, select.POLLIN)
    while True:
        ready = {place for place, _ in poller.poll()}
        if 0 in ready:
            return
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            become(connection)
        connection.close()


def become(connection: socket.socket) -> NoReturn:
    """Be the process that was asked for, to its end."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        request = receive(connection)
        end_with(connection)
        connection.send(STARTED)
        code = run(request)
    except BaseException:  # noqa: BLE001  # no other process reports it
        traceback.print_exc()
    finally:
        _flush()
        try:
            connection.send(bytes([code & 0xFF]))
        finally:
            os._exit(code & 0xFF)


def receive(connection: socket.socket) -> dict[str, Any]:
    """What the launcher says; its streams become those of this process."""
    room = socket.CMSG_SPACE(STREAMS * array.array("i").itemsize)
    length, ancillary, _, _ = connection.recvmsg(4, room)
    streams = array.array("i")
    for _, _, content in ancillary:
        streams.frombytes(content)
    wanted = int.from_bytes(length, "big")
    if len(length) != 4 or len(streams) != STREAMS or wanted > REQUEST_BYTES_MAX:
        raise ConnectionError("this is not a request for a process")
    with connection.makefile("rb") as reader:
        said: dict[str, Any] = json.loads(reader.read(wanted))
    for target, stream in enumerate(streams):
        os.dup2(stream, target)
        os.close(stream)
    return said


def end_with(connection: socket.socket) -> None:
    """Let the kernel send SIGTERM when the launcher has ended. What this process forks later has no part in it."""
    fcntl.fcntl(connection, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(connection, fcntl.F_SETSIG, signal.SIGTERM)
    fcntl.fcntl(connection, fcntl.F_SETFL, fcntl.fcntl(connection, fcntl.F_GETFL) | os.O_ASYNC)
    os.register_at_fork(after_in_child=connection.close)


def run(request: dict[str, Any]) -> int:
    """Run a module as `python -m` does; its exit code."""
    module, *arguments = request["arguments"]
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.path += [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one and one not in sys.path]
    sys.argv = ["-m", *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # closed by the other side, or by what ran here
            pass


def main() -> None:
    """Arguments: the number of a listening socket, and the folder it is in. Launchers may be waiting there already."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which ends this one by closing its end
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        from headwater.flow.worker_daemon import import_what_workers_need

        import_what_workers_need()
        serve(listener)
    remove(Path(sys.argv[2]))


def remove(folder: Path) -> None:
    """The server's socket and what was made beside it: a driver that was killed cannot."""
    for name in ("socket", "python"):
        (folder / name).unlink(missing_ok=True)
    folder.rmdir()


if __name__ == "__main__":
    main()
