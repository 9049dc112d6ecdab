"""Apache Kafka's own commands, as its scripts start them: kafka-consumer-groups.sh and kafka-console-consumer.sh."""

import subprocess

from tests.clients.brokers.maven import java_command, kafka_class_path

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
SILENCE_MS = 10_000


def tool(name: str, *words: str) -> list[str]:
    """The lines that a command of Kafka's prints; AssertionError if it fails."""
    command = [java_command(), "-Xmx256m", "-cp", kafka_class_path(), name, *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout.splitlines()


def lag_of_group(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    """By topic and partition, as kafka-consumer-groups.sh --describe shows it."""
    return lags(tool(GROUPS, "--bootstrap-server", bootstrap, "--describe", "--group", group))


def lags(lines: list[str]) -> dict[tuple[str, int], int]:
    """
    >>> lags(["", "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID", "shop.o o 1 7 9 2 -"])
    {('o', 1): 2}
    """
    rows = [line.split() for line in lines if line.strip()]
    header = next((row for row in rows if row[0] == "GROUP"), [])
    places = [header.index(name) for name in ("TOPIC", "PARTITION", "LAG")] if header else []
    found = [
        [row[place] for place in places] for row in rows if places and row[0] != "GROUP" and len(row) > max(places)
    ]
    return {(topic, int(partition)): int(lag) for topic, partition, lag in found if lag.isdigit()}


def committed_values(bootstrap: str, topic: str) -> list[str]:
    """What a Java consumer of committed records reads of a topic, from its beginning until it is silent."""
    words = ["--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning",
             "--isolation-level", "read_committed", "--timeout-ms", str(SILENCE_MS)]  # fmt: skip
    return tool(CONSOLE, *words)
