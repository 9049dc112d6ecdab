"""Hosts of a cluster on one machine: a network namespace each, joined by a switch; or all of them loopback.

Addresses lie in 198.51.100.0/24, and exist only in the namespaces: no address of this machine's own network changes.

    hw<process>-switch      the bridge `lan`, and one end of a pair of links for each host: v0, v1, ...
    hw<process>-<host>      the other end, `eth0` with 198.51.100.<2 + number>; loopback
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL

PREFIX = "hw"
NETWORK, FIRST = "198.51.100", 2
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Host:
    name: str
    address: str
    namespace: str = ""
    """"" is this machine itself."""

    def command(self, words: Sequence[str]) -> list[str]:
        """The command that runs another one on the host, in the process that it is given."""
        return ["ip", "netns", "exec", self.namespace, *words] if self.namespace else list(words)


class Hosts:
    """Makes and removes them; only of its own process. What still runs on one when it is removed is killed."""

    def __init__(self, names: Sequence[str], *, namespaces: bool, owner: int | None = None) -> None:
        """`owner` is the process that has made the namespaces, if it is another one."""
        self._own, self._names = f"{PREFIX}{owner or os.getpid()}", list(names)
        self.separate = namespaces
        self._by_name = {name: self._host(number, name) for number, name in enumerate(names)}

    def __getitem__(self, name: str) -> Host:
        return self._by_name[name]

    @property
    def switch(self) -> str:
        return f"{self._own}-switch"

    def _host(self, number: int, name: str) -> Host:
        if not self.separate:
            return Host(name, LOOPBACK)
        return Host(name, f"{NETWORK}.{FIRST + number}", f"{self._own}-{name}")

    def make(self) -> None:
        if not self.separate:
            return
        ip("netns", "add", self.switch)
        ip("-n", self.switch, "link", "add", "lan", "type", "bridge")
        ip("-n", self.switch, "link", "set", "lan", "up")
        for number, host in enumerate(self._by_name.values()):
            ip("netns", "add", host.namespace)
            pair = ("type", "veth", "peer", "name", "eth0", "netns", host.namespace)
            ip("-n", self.switch, "link", "add", f"v{number}", *pair)
            ip("-n", self.switch, "link", "set", f"v{number}", "master", "lan", "up")
            ip("-n", host.namespace, "address", "add", f"{host.address}/24", "dev", "eth0")
            ip("-n", host.namespace, "link", "set", "eth0", "up")
            ip("-n", host.namespace, "link", "set", "lo", "up")

    def remove(self) -> None:
        if self.separate:
            remove_namespaces([*(host.namespace for host in self._by_name.values()), self.switch])

    def cut(self, name: str) -> None:
        """No packet reaches the host, or leaves it."""
        ip("-n", self.switch, "link", "set", self._link(name), "down")

    def heal(self, name: str) -> None:
        ip("-n", self.switch, "link", "set", self._link(name), "up")

    def slow(self, name: str, *, delay_ms: int) -> None:
        """Packets to the host take so much longer. CalledProcessError where the kernel has no netem."""
        words = ["tc", "qdisc", "replace", "dev", self._link(name), "root", "netem", "delay", f"{delay_ms}ms"]
        subprocess.run(["ip", "netns", "exec", self.switch, *words], check=True, capture_output=True)

    def fast(self, name: str) -> None:
        words = ["tc", "qdisc", "del", "dev", self._link(name), "root"]
        subprocess.run(["ip", "netns", "exec", self.switch, *words], check=False, capture_output=True)

    def _link(self, name: str) -> str:
        return f"v{self._names.index(name)}"


@contextmanager
def made_hosts(names: Sequence[str]) -> Iterator[Hosts]:
    """In namespaces where this user may make them, else on loopback; gone after the block."""
    remove_left_behind()
    hosts = Hosts(names, namespaces=namespaces_allowed())
    try:
        hosts.make()
        yield hosts
    finally:
        hosts.remove()


def namespaces_allowed() -> bool:
    if shutil.which("ip") is None:
        return False
    name = f"{PREFIX}{os.getpid()}-try"
    with suppress(subprocess.CalledProcessError):
        ip("netns", "add", name)
        try:
            ip("-n", name, "link", "add", "v", "type", "veth", "peer", "name", "w")
            return True
        finally:
            ip("netns", "delete", name)
    return False


def remove_left_behind() -> None:
    """Namespaces of processes that were killed."""
    if shutil.which("ip") is None:
        return
    for name in ip("netns", "list").split():
        owner = re.fullmatch(rf"{PREFIX}(\d+)-[a-z0-9-]+", name)
        if owner and not Path(f"/proc/{owner[1]}").exists():
            remove_namespaces([name])


def remove_namespaces(names: Sequence[str]) -> None:
    for name in names:
        with suppress(subprocess.CalledProcessError):
            for process in ip("netns", "pids", name).split():
                with suppress(ProcessLookupError):
                    os.kill(int(process), SIGKILL)
            ip("netns", "delete", name)


def ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout
