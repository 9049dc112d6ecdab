"""Apache Kafka: one node in KRaft mode on loopback, in a folder of its own."""

import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.clients.brokers.maven import java_command, kafka_class_path
from tests.clients.brokers.process import BrokerFailed, BrokerProcess, free_port, launch, wait_until_answering

# What Kafka's own start script gives the virtual machine.
JVM_OPTIONS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)

# A cluster of one, and groups that settle quickly so that a test need not wait for Kafka's patience.
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "8",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "300",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "15000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "log.initial.task.delay.ms": "500",
}


def start_apache_kafka(folder: Path, settings: Mapping[str, str] | None = None) -> BrokerProcess:
    """Start it and wait until it answers; raises NotAvailable where Java or the jars are missing."""
    class_path = kafka_class_path()
    broker_port, controller_port = free_port(), free_port()
    data = folder / "data"
    written = {
        **SETTINGS,
        "log.dirs": str(data),
        "listeners": f"PLAINTEXT://127.0.0.1:{broker_port},CONTROLLER://127.0.0.1:{controller_port}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        **(settings or {}),
    }
    folder.mkdir(parents=True, exist_ok=True)
    properties = folder / "server.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in written.items()))
    format_storage(class_path, properties)
    return restart_apache_kafka(folder)


def restart_apache_kafka(folder: Path) -> BrokerProcess:
    """Start it again on what start_apache_kafka left in the folder."""
    broker = launch_apache_kafka(folder)
    wait_until_answering(broker.address, broker.process, broker.log_path, patience_seconds=120)
    return broker


def launch_apache_kafka(
    folder: Path, *, heap: str = "1g", on: Callable[[list[str]], list[str]] = lambda words: words
) -> BrokerProcess:
    """Without waiting until it answers. `on` turns its command into one that runs it on another host."""
    found = re.search(r"[A-Z_]+://(\d+\.\d+\.\d+\.\d+:\d+)", (folder / "server.properties").read_text())
    assert found is not None
    memory = f"-Xms{heap}", f"-Xmx{heap}"
    settings = str(folder / "server.properties")
    command = [java_command(), *memory, *JVM_OPTIONS, "-cp", kafka_class_path(), "kafka.Kafka", settings]
    log_path = folder / "broker.log"
    return BrokerProcess("kafka", found[1], launch(on(command), log_path), log_path, folder / "data")


def format_storage(class_path: str, properties: Path) -> None:
    cluster_id = "aGVhZHdhdGVyLXRlc3RzIQ"
    tool = [
        java_command(),
        "-cp",
        class_path,
        "kafka.tools.StorageTool",
        "format",
        "-t",
        cluster_id,
        "-c",
        str(properties),
    ]
    done = subprocess.run(tool, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BrokerFailed(f"Kafka's storage could not be formatted: {done.stdout} {done.stderr}")
