"""DescribeCluster and DescribeLogDirs: who the cluster is, and what it holds on disk."""

from tests.clients.client import Client
from tests.clients.message import Message
from tests.clients.parametrize import for_clients


@for_clients("describe_cluster")
def test_the_cluster_is_the_one_node_that_answers(client: Client, bootstrap: str) -> None:
    cluster = client.describe_cluster()
    assert cluster.nodes == [bootstrap]
    assert cluster.cluster_id


@for_clients("describe_cluster")
def test_every_client_sees_the_same_cluster(client: Client, admin: Client) -> None:
    assert client.describe_cluster() == admin.describe_cluster()


@for_clients("describe_node")
def test_the_node_reports_its_configuration(client: Client) -> None:
    configs = client.describe_node()
    assert configs["auto.create.topics.enable"] == "true"
    assert configs["num.partitions"] == "1"


@for_clients("log_bytes")
def test_the_log_folder_shows_what_a_partition_takes(client: Client, admin: Client, topic: str) -> None:
    admin.produce(topic, [Message(b"x" * 1000)] * 100)
    assert 100_000 < client.log_bytes(topic)[0] < 120_000
