"""Everything that happens in the shop, sent to the node as any Kafka client would."""

import threading
from collections import Counter

from confluent_kafka import KafkaError, Message, Producer

from headwater.clock import Clock
from headwater.demo.customers import Customers

TICK_SECONDS = 0.1
FLUSH_SECONDS = 60
SETTINGS = {
    "enable.idempotence": True,
    "partitioner": "murmur2_random",
    "linger.ms": 20,
    "message.timeout.ms": 60_000,
    "log_level": 0,  # failures reach us as errors; its own lines would only mix with what the command says
}


class Traffic:
    """Sends what arrives, when it arrives, until it is stopped."""

    def __init__(self, address: str, customers: Customers, clock: Clock) -> None:
        self._producer = Producer({"bootstrap.servers": address, **SETTINGS})
        self._customers, self._clock = customers, clock
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="headwater-traffic", daemon=True)
        self.stored: Counter[str] = Counter()
        """Records of each topic that are safe in the log."""
        self.failure: str | None = None
        """The first reason why a record is not there."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stops the traffic; every sent record is in the log when this returns, or it raises."""
        self._stopping.set()
        self._thread.join()
        if self._producer.flush(FLUSH_SECONDS) and self.failure is None:
            self.failure = f"some were not taken within {FLUSH_SECONDS} seconds"

    def _work(self) -> None:
        try:
            while not self._stopping.wait(TICK_SECONDS):
                self._send()
        except Exception as error:  # noqa: BLE001  # whatever ends the thread is raised in the thread that waits for it
            self.failure = self.failure or f"{type(error).__name__}: {error}"

    def _send(self) -> None:
        for event in self._customers.until(self._clock.now_ms()):
            self._producer.produce(event.topic, event.value, event.key, on_delivery=self._delivered)
        self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.stored[message.topic() or ""] += 1
        else:
            self.failure = self.failure or error.str() or error.name()
