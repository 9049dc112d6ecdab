from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from headwater.log.log import Log
from headwater.record import Record
from headwater.testing import running_node
from tests.waiting import LONG


def test_a_running_node_takes_kafka_clients_and_stops_at_the_end_of_the_block() -> None:
    with running_node() as node:
        data = node.data
        producer = Producer({"bootstrap.servers": node.kafka_address})
        producer.produce("orders", b"two apples")
        assert producer.flush(LONG) == 0
        consumer = Consumer({"bootstrap.servers": node.kafka_address, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.assign([TopicPartition("orders", 0, 0)])
        message = consumer.poll(LONG)
        assert message is not None
        assert message.value() == b"two apples"
        consumer.close()
    assert not data.exists()


def test_two_nodes_run_beside_each_other() -> None:
    with running_node() as one, running_node() as other:
        assert one.kafka_address != other.kafka_address


def test_data_in_a_folder_of_your_own_stays(tmp_path: Path) -> None:
    with running_node(tmp_path) as node:
        node.log.create_topic("orders")
        node.log.append("orders", Record(b"kept"))
    with Log.open(tmp_path) as log:
        assert [record.value for record in log.read("orders")] == [b"kept"]
