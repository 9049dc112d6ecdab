"""Apache Kafka as a cluster on loopback: a controller and three brokers, every topic with three replicas."""

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.clients.brokers.apache_kafka import SETTINGS, format_storage, launch_apache_kafka
from tests.clients.brokers.maven import kafka_class_path
from tests.clients.brokers.process import BrokerProcess, free_port, wait_until_answering
from tests.cluster.hosts import LOOPBACK, Host

BROKERS = 3
HEAP = "256m"
HERE = Host("here", LOOPBACK)
PATIENCE_SECONDS = 120

REPLICATED = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    # A broker that is away is noticed after this time, so that a test need not wait for nine seconds.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000",
}


class KafkaCluster:
    def __init__(
        self, folder: Path, settings: Mapping[str, str] | None = None, hosts: Sequence[Host] = (HERE,) * (1 + BROKERS)
    ) -> None:
        """Format the storage; NotAvailable where Java or the jars are missing. Of the hosts the first is that of the
        controller."""
        kafka_class_path()
        self._hosts = hosts
        controller, self._ports = free_port(), [free_port() for _ in range(BROKERS)]
        voters = {"controller.quorum.voters": f"100@{hosts[0].address}:{controller}"}
        quorum = {**SETTINGS, **REPLICATED, **voters, **(settings or {})}
        self._controller_folder = folder / "controller"
        own = {
            "process.roles": "controller",
            "node.id": "100",
            "listeners": f"CONTROLLER://{hosts[0].address}:{controller}",
        }
        _format(self._controller_folder, {**quorum, **own})
        self._controller: BrokerProcess | None = None
        self._folders = [folder / f"broker-{number}" for number in range(BROKERS)]
        self._running: dict[int, BrokerProcess] = {}
        for number, port in enumerate(self._ports):
            listener = f"PLAINTEXT://{hosts[1 + number].address}:{port}"
            own = {"process.roles": "broker", "node.id": str(number), "listeners": listener}
            _format(self._folders[number], {**quorum, **own})

    @property
    def addresses(self) -> list[str]:
        return [f"{host.address}:{port}" for host, port in zip(self._hosts[1:], self._ports, strict=True)]

    @property
    def bootstrap(self) -> str:
        return ",".join(self.addresses)

    def start(self, *numbers: int) -> None:
        """Some of the brokers 0, 1, 2; again, if they were killed."""
        if self._controller is None:
            self._controller = launch_apache_kafka(self._controller_folder, heap=HEAP, on=self._hosts[0].command)
        begun = {
            number: launch_apache_kafka(self._folders[number], heap=HEAP, on=self._hosts[1 + number].command)
            for number in numbers
        }
        self._running |= begun
        for broker in begun.values():
            wait_until_answering(broker.address, broker.process, broker.log_path, patience_seconds=PATIENCE_SECONDS)

    def kill(self, number: int) -> None:
        self._running.pop(number).kill()

    def pause(self, number: int) -> None:
        self._running[number].process.send_signal(signal.SIGSTOP)

    def resume(self, number: int) -> None:
        self._running[number].process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """All of it, also what was paused."""
        for broker in (*self._running.values(), *([self._controller] if self._controller else [])):
            broker.kill()


@contextmanager
def running_cluster(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[KafkaCluster]:
    cluster = KafkaCluster(folder, settings)
    try:
        cluster.start(*range(BROKERS))
        yield cluster
    finally:
        cluster.stop()


def _format(folder: Path, settings: Mapping[str, str]) -> None:
    folder.mkdir(parents=True)
    file = folder / "server.properties"
    whole = {**settings, "log.dirs": str(folder / "data")}
    file.write_text("".join(f"{name}={value}\n" for name, value in whole.items()))
    format_storage(kafka_class_path(), file)
