"""The command, typed in a folder of its own."""

import json
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headwater import Node, NodeSettings, WireSettings
from headwater.cli.main import main


class Ran(NamedTuple):
    code: int
    output: str
    errors: str

    @property
    def json(self) -> Any:
        return json.loads(self.output)


class Terminal:
    """A user at a shell, in a folder with a data directory."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.data = folder / "data"
        self._monkeypatch = monkeypatch

    def type(self, *words: str, stdin: str | bytes = b"") -> Ran:
        """Run a command to its end in this process, which is much quicker than in one of its own."""
        streams = [TextIOWrapper(BytesIO(stdin.encode() if isinstance(stdin, str) else stdin))]
        streams += [TextIOWrapper(BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)]
        with self._monkeypatch.context() as patch:
            for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
                patch.setattr(sys, name, stream)
            try:
                code = main(words)
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else 1
        output, errors = (stream.buffer.getvalue().decode() for stream in streams[1:])
        return Ran(code, output, errors)

    def start(self, *words: str) -> "subprocess.Popen[bytes]":
        """Start a command in a process of its own, for what only a process has: signals and real pipes."""
        command = [sys.executable, "-m", "headwater", *words]
        return subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADWATER_DATA", raising=False)
    return Terminal(tmp_path, monkeypatch)


@pytest.fixture
def node(terminal: Terminal) -> Iterator[Node]:
    """A node that runs on the data directory of the terminal."""
    with Node(terminal.data, NodeSettings(wire=WireSettings(port=0))) as node:
        yield node
