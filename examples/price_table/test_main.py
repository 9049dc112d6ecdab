from pathlib import Path

from examples.price_table.main import create_table, put, read_table
from headwater import Node, NodeSettings, WireSettings


def test_the_table_holds_the_newest_price_of_each_good(tmp_path: Path) -> None:
    with Node(tmp_path, NodeSettings(wire=WireSettings(port=0))) as node:
        create_table(node.kafka_address)
        put(node.kafka_address, {"lamp": "39", "desk": "249", "vase": "29"})
        put(node.kafka_address, {"lamp": "35", "vase": None})
        assert read_table(node.kafka_address) == {"lamp": "35", "desk": "249"}
