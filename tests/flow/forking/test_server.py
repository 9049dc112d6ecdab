"""The fork server, asked as Spark asks a Python: by starting a program."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.flow.forking.starting import ForkServer, start_fork_server
from tests.waiting import LONG, patience

MODULE = "tests.flow.forking.shown"
ROOT = Path(__file__).parents[3]
PATIENCE_SECONDS = 60


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    with (tmp_path_factory.mktemp("server") / "log").open("wb") as log:
        started = start_fork_server(log)
    assert started is not None
    yield started
    started.stop()


def asked(program: Path, *arguments: str, folder: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    environment = {"PYTHONPATH": str(ROOT), "WORD": "lamp"}
    return subprocess.run(
        [program, *arguments],
        input="given", capture_output=True, text=True, cwd=folder, env=environment, check=False,
    )  # fmt: skip


def lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def ends(process: int) -> bool:
    deadline = patience() + PATIENCE_SECONDS
    while lives(process) and patience() < deadline:
        time.sleep(0.01)
    return not lives(process)


def test_a_process_gets_what_its_launcher_was_given_and_has_its_imports_done(
    server: ForkServer, tmp_path: Path
) -> None:
    ended = asked(server.python, "-m", MODULE, "a b", "", folder=tmp_path)
    assert ended.returncode == 7
    assert ended.stderr == "aside\n"
    said = json.loads(ended.stdout)
    assert said.pop("variables") <= 6, "the environment of the server is not that of the process"
    assert said == {
        "arguments": ["a b", ""], "word": "lamp", "folder": str(tmp_path), "input": "given", "ready": True,
    }  # fmt: skip


def test_a_module_that_is_not_there_is_an_error_and_the_server_goes_on(server: ForkServer) -> None:
    ended = asked(server.python, "-m", "tests.flow.forking.no_such_module")
    assert ended.returncode == 1
    assert "no_such_module" in ended.stderr
    assert asked(server.python, "-m", MODULE, "a").returncode == 7


def test_what_is_no_module_is_given_to_python(server: ForkServer) -> None:
    assert asked(server.python, "-c", "print(1 + 1)").stdout == "2\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_process_ends_with_its_launcher(server: ForkServer, number: signal.Signals) -> None:
    with subprocess.Popen([server.python, "-m", MODULE, "wait"], stdout=subprocess.PIPE, cwd=ROOT) as launcher:
        assert launcher.stdout is not None
        process = int(launcher.stdout.readline())
        assert process != launcher.pid
        launcher.send_signal(number)
    assert ends(process)


def test_a_launcher_does_not_wait_for_what_its_process_has_forked(server: ForkServer) -> None:
    with subprocess.Popen([server.python, "-m", MODULE, "fork"], cwd=ROOT) as launcher:
        assert launcher.wait(LONG) == 0
    # It waits for a signal in the group of the server, which nobody else would give it.
    group = os.getpgid(server.process.pid)
    left = [int(one) for one in os.listdir("/proc") if one.isdecimal() and _waits_in(int(one), group, server)]
    assert len(left) == 1
    os.kill(left[0], signal.SIGKILL)


def _waits_in(process: int, group: int, server: ForkServer) -> bool:
    try:
        command = Path(f"/proc/{process}/cmdline").read_bytes()
        return str(server.folder).encode() in command and process != server.process.pid and os.getpgid(process) == group
    except OSError:
        return False


def test_without_the_server_python_is_started(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        server = start_fork_server(log)
    assert server is not None
    server.process.kill()
    server.process.wait()
    ended = asked(server.python, "-m", MODULE, "a")
    server.stop()
    assert ended.returncode == 7
    assert json.loads(ended.stdout)["ready"] is False


def test_the_server_ends_with_whoever_has_started_it(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib, signal\n"
        "from headwater.flow.forking.starting import start_fork_server\n"
        "server = start_fork_server(open('log', 'wb'))\n"
        "print(server.process.pid, server.folder, flush=True)\n"
        "signal.pause()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=tmp_path) as driver:
        assert driver.stdout is not None
        process, folder = driver.stdout.readline().split()
        driver.kill()
    assert ends(int(process))
    assert not Path(folder.decode()).exists()
