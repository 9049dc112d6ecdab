"""Start and stop the fork server of a session."""

import fcntl
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from headwater.flow.forking import launcher

SERVER = "headwater.flow.forking.server"


@dataclass(frozen=True)
class ForkServer:
    folder: Path
    process: "subprocess.Popen[bytes]"

    @property
    def python(self) -> Path:
        """The program that Spark runs as Python."""
        return self.folder / "python"

    def stop(self) -> None:
        """The server ends. Processes that it has made end with the JVM that has asked for them."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)  # removed already, unless the server was killed


def start_fork_server(log: IO[bytes]) -> ForkServer | None:
    """None where it cannot be: no Linux, or no place for a program."""
    if not hasattr(fcntl, "F_SETSIG"):
        return None
    folder = Path(tempfile.mkdtemp(prefix="headwater-"))
    program, place = folder / "python", folder / "socket"
    words = [sys.executable, "-I", "-S", launcher.__file__, str(place)]
    program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    program.chmod(0o700)
    if not os.access(program, os.X_OK):  # a file system whose programs may not be run
        shutil.rmtree(folder, ignore_errors=True)
        return None
    # Spark wants one seed in all its Python processes.
    environment = {**os.environ, "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0"), "PYTHONUNBUFFERED": "YES"}
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(place))
        listener.listen()
        process = subprocess.Popen(
            [sys.executable, "-m", SERVER, str(listener.fileno()), str(folder)],
            stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment, pass_fds=[listener.fileno()],
        )  # fmt: skip
    return ForkServer(folder, process)
