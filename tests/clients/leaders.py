"""Kafka answers the creation of a topic before its partitions have leaders; headwater after. Tests wait for them."""

from tests.clients.client import LATEST, Client, Refused
from tests.waiting import wait_until


def wait_for_leaders(admin: Client, topic: str, partitions: int) -> None:
    """Return once every partition of a new topic answers for itself."""
    wait_until(lambda: all(led(admin, topic, partition) for partition in range(partitions)), f"leaders of {topic}")


def led(admin: Client, topic: str, partition: int) -> bool:
    try:
        # First the description: asked for an offset too early, librdkafka remembers for long that there is no leader.
        leader = admin.describe_topic(topic).leaders.get(partition, -1)
        return leader >= 0 and admin.offset_at(topic, partition, LATEST) == 0
    except Refused:
        return False
