"""Code blocks of a page, run in the order a reader would run them.

`sh` blocks run in bash, `python` blocks share one namespace; both in one empty folder per page. A line that ends in
`# -> X` must be an expression whose repr is X. A `python` block that begins with `# NAME.py` is a file: it is written,
and a later block runs it. Commands that start Spark may be run by this process (errands.py). The ports 9092 and 8080
become free ones, and 5432 where a page has a database. Lines of `make` are left out: a page may
tell people to run the very tests that run the page.
"""

import ast
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from tests.docs.errands import Errands
from tests.waiting import LONG, patience

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.M | re.S)
FILE_NAME = re.compile(r"# (\w+\.py)\n")
READY_SECONDS_MAX = 30


class Block(NamedTuple):
    language: str
    code: str
    line: int


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(found[1], found[2], text.count("\n", 0, found.start()) + 2) for found in BLOCK.finditer(text)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Reader:
    """Somebody who types in everything a page shows."""

    def __init__(self, folder: Path, errands: Errands | None = None) -> None:
        self._folder, self._errands = folder, errands
        self._ports = {"9092": str(free_port()), "8080": str(free_port())}
        self._names: dict[str, object] = {"__name__": "page"}
        self._sessions: list[subprocess.Popen[bytes]] = []

    def port_for(self, number: str) -> str:
        """A free port in place of one that pages name."""
        return self._ports.setdefault(number, str(free_port()))

    def run(self, block: Block, page: Path) -> None:
        code = block.code
        for port, free in self._ports.items():
            code = code.replace(port, free)
        if block.language == "python" and (named := FILE_NAME.match(code)):
            (self._folder / named[1]).write_text(code, encoding="utf-8")
        elif block.language == "python":
            self._run_python(code, location=f"{page.name}:{block.line}")
        elif block.language == "sh":
            self._run_shell(code, location=f"{page.name}:{block.line}")

    def close(self) -> None:
        for session in self._sessions:
            try:
                os.killpg(session.pid, signal.SIGTERM)
            except ProcessLookupError:
                pass  # everything it started has ended by itself

    def _run_python(self, code: str, *, location: str) -> None:
        lines = code.splitlines()
        for statement in ast.parse(code).body:
            promised = re.search(r"# -> (.+)$", lines[(statement.end_lineno or 1) - 1])
            if promised is None:
                exec(compile(ast.Module([statement], []), location, "exec"), self._names)
                continue
            assert isinstance(statement, ast.Expr), f"{location}: '# ->' must follow an expression"
            value = eval(compile(ast.Expression(statement.value), location, "eval"), self._names)
            assert repr(value) == promised[1], location

    def _run_shell(self, code: str, *, location: str) -> None:
        script = "\n".join(line for line in code.splitlines() if not line.startswith("make "))
        output = self._folder / f"output-{len(self._sessions)}"
        path = [*([str(self._errands.path)] if self._errands else []), str(Path(sys.executable).parent)]
        environment = {**os.environ, "PATH": ":".join([*path, os.environ["PATH"]])}
        with output.open("wb") as written:
            session = subprocess.Popen(
                ["bash", "-e", "-o", "pipefail", "-c", script],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.STDOUT,
                env=environment,
                # A group of its own, so that what it leaves running can be ended with the page.
                start_new_session=True,
            )
        self._sessions.append(session)
        code_of_exit = self._exit_of(session)
        assert code_of_exit == 0, f"{location}:\n{output.read_text(errors='replace')}"
        if script.startswith("headwater start"):
            self._wait_for_node(output)

    def _exit_of(self, session: "subprocess.Popen[bytes]") -> int:
        if self._errands is None:
            return session.wait(LONG)
        while session.poll() is None:
            self._errands.run_next(0.05)
        return session.returncode

    def _wait_for_node(self, output: Path) -> None:
        """A reader continues when the node has said that it is ready."""
        deadline = patience() + READY_SECONDS_MAX
        while "ready" not in output.read_text():
            assert patience() < deadline, output.read_text()
            time.sleep(0.05)
