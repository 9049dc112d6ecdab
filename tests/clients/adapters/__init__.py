"""One adapter per client library, and the list that shows them all."""

from tests.clients.adapters.aiokafka import Aiokafka
from tests.clients.adapters.confluent import Confluent
from tests.clients.adapters.java import Java
from tests.clients.adapters.kafka_python import KafkaPython
from tests.clients.adapters.kcat import Kcat
from tests.clients.client import Client, offers

ADAPTERS: tuple[type[Client], ...] = (Confluent, KafkaPython, Aiokafka, Kcat, Java)


def clients_with(*needs: str) -> list[str]:
    """Names of the clients that offer all of these methods and features."""
    return [adapter.name for adapter in ADAPTERS if offers(adapter, *needs)]


def adapter_named(name: str) -> type[Client]:
    return next(adapter for adapter in ADAPTERS if adapter.name == name)
