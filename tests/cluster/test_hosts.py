"""Hosts have networks of their own, that can be cut, and leave nothing behind."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.cluster.hosts import Host, Hosts, ip, made_hosts, namespaces_allowed

pytestmark = pytest.mark.skipif(not namespaces_allowed(), reason="this user may make no network namespaces")

LISTEN = "import socket, sys; s = socket.create_server((sys.argv[1], 7)); print('there', flush=True); s.accept()"
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], 7), timeout=2).close()"


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    with made_hosts(["one", "two"]) as hosts:
        yield hosts


def reaches(host: Host, other: Host) -> bool:
    """Whether a connection comes about. Each listener takes one."""
    command = other.command([sys.executable, "-c", LISTEN, other.address])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as listener:
        assert listener.stdout is not None
        assert listener.stdout.readline() == "there\n"
        words = host.command([sys.executable, "-c", CONNECT, other.address])
        found = subprocess.run(words, capture_output=True, check=False).returncode == 0
        listener.kill()
    return found


def test_a_host_that_is_cut_off_is_reached_again_when_that_is_over(hosts: Hosts) -> None:
    assert reaches(hosts["one"], hosts["two"])
    hosts.cut("two")
    assert not reaches(hosts["one"], hosts["two"])
    hosts.heal("two")
    assert reaches(hosts["one"], hosts["two"])


def test_what_runs_on_hosts_ends_with_them_and_other_namespaces_stay() -> None:
    with made_hosts(["one"]) as hosts:
        sleeper = subprocess.Popen(hosts["one"].command(["sleep", "1000"]))
        assert str(sleeper.pid) in ip("netns", "pids", hosts["one"].namespace).split()
    assert sleeper.wait() != 0
    assert f"hw{os.getpid()}-" not in ip("netns", "list")


def test_hosts_of_a_process_that_was_killed_are_removed_by_the_next() -> None:
    script = "import os; from tests.cluster.hosts import Hosts; Hosts(['one'], namespaces=True).make(); os._exit(9)"
    subprocess.run([sys.executable, "-c", script], check=False)
    with made_hosts(["two"]):
        mine = [name for name in ip("netns", "list").split() if name.startswith("hw")]
        assert not [name for name in mine if name.endswith("-one")]
