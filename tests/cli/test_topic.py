from headwater import Node
from headwater.log import Log
from headwater.record import Record
from tests.cli.conftest import Terminal


def test_a_created_topic_has_its_partitions_and_settings(terminal: Terminal, node: Node) -> None:
    said = terminal.type("topic", "create", "prices", "--partitions", "4", "--config", "cleanup.policy=compact")
    assert said.output == 'created topic "prices" with 4 partitions\n'
    topic = node.log.topic("prices")
    assert (topic.partitions, dict(topic.configs)) == (4, {"cleanup.policy": "compact"})


def test_a_topic_that_exists_is_not_made_again(terminal: Terminal, node: Node) -> None:
    node.log.create_topic("orders")
    said = terminal.type("topic", "create", "orders")
    assert said.code == 1
    assert 'topic "orders" exists already' in said.errors


def test_a_value_that_a_setting_does_not_have_is_refused_with_the_reason(terminal: Terminal, node: Node) -> None:
    said = terminal.type("topic", "create", "orders", "--config", "compression.type=brotli")
    assert said.code == 1
    assert "compression.type" in said.errors
    assert node.log.topics() == []


def test_listing_leaves_out_internal_topics_unless_asked(terminal: Terminal, node: Node) -> None:
    node.log.create_topic("orders", partitions=2)
    node.log.create_topic("__consumer_offsets")
    assert terminal.type("topic", "list").output.split() == ["topic", "partitions", "orders", "2"]
    assert "__consumer_offsets" in terminal.type("topic", "list", "--internal").output


def test_an_empty_list_says_how_to_begin(terminal: Terminal, node: Node) -> None:
    assert "headwater topic create" in terminal.type("topic", "list").output


def test_describe_shows_offsets_and_who_chose_each_setting(terminal: Terminal, node: Node) -> None:
    node.log.create_topic("orders", partitions=2, configs={"retention.ms": "5000"})
    terminal.type("produce", "orders", "--partition", "1", stdin="a\nb\n")
    said = terminal.type("topic", "describe", "orders", "--json").json
    assert said["partitions"] == [{"partition": 0, "first": 0, "end": 0}, {"partition": 1, "first": 0, "end": 2}]
    assert said["configs"] == {"retention.ms": "5000"}
    assert said["defaults"]["cleanup.policy"] == "delete"
    text = terminal.type("topic", "describe", "orders").output
    assert 'topic "orders": 2 partitions, 2 offsets held' in text


def test_alter_sets_unsets_and_grows(terminal: Terminal, node: Node) -> None:
    node.log.create_topic("orders", configs={"retention.ms": "5000", "segment.ms": "9000"})
    changes = ("--config", "retention.bytes=1000000", "--unset", "retention.ms", "--partitions", "3")
    assert terminal.type("topic", "alter", "orders", *changes).output == 'changed topic "orders"\n'
    topic = node.log.topic("orders")
    assert topic.partitions == 3
    assert dict(topic.configs) == {"segment.ms": "9000", "retention.bytes": "1000000"}


def test_alter_without_a_change_says_what_can_be_changed(terminal: Terminal) -> None:
    said = terminal.type("topic", "alter", "orders")
    assert said.code == 1
    assert "--partitions, --config or --unset" in said.errors


def test_partitions_never_become_fewer(terminal: Terminal, node: Node) -> None:
    node.log.create_topic("orders", partitions=3)
    said = terminal.type("topic", "alter", "orders", "--partitions", "2")
    assert said.code == 1
    assert node.log.topic("orders").partitions == 3


def test_a_deleted_topic_is_not_found(terminal: Terminal, node: Node) -> None:
    node.log.create_topic("orders")
    assert terminal.type("topic", "delete", "orders", "--json").json == {"deleted": "orders"}
    assert node.log.topics() == []


def test_a_topic_that_damage_took_offline_is_deleted_and_its_name_is_free_again(terminal: Terminal) -> None:
    with Log.open(terminal.data) as log:
        for name in ("orders", "visits"):
            log.create_topic(name, partitions=2)
            log.append(name, Record(b"first"), partition=1)
    for file in ("orders.json", "orders.copy"):
        (terminal.data / "topics" / file).write_bytes(b"?")
    said = terminal.type("topic", "describe", "orders")
    assert (said.code, 'To give its records up: "headwater topic delete orders"' in said.errors) == (1, True)
    assert terminal.type("topic", "delete", "orders").output == 'deleted topic "orders"\n'
    assert terminal.type("topic", "create", "orders", "--partitions", "2").code == 0
    with Log.open(terminal.data) as log:
        assert (log.offline_topics(), list(log.read("orders", 1))) == ({}, [])
        assert [record.value for record in log.read("visits", 1)] == [b"first"]


def test_an_unknown_topic_is_named_with_a_way_out(terminal: Terminal, node: Node) -> None:
    for action in ("describe", "delete"):
        said = terminal.type("topic", action, "oders")
        assert said.code == 1
        assert said.errors.startswith('headwater: there is no topic "oders". Create it with')
