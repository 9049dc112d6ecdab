"""Reports of the parts that serve does not import, from files like those the parts write."""

from pathlib import Path

from headwater.capture.definition import Definition, Definitions
from headwater.settings import HttpSettings, NodeSettings
from headwater.testing import running_node
from tests.flow.job.kept_jobs import kept_job
from tests.serve.shop import Shop


def test_flows_and_captures_of_a_data_directory_are_reported(tmp_path: Path) -> None:
    kept_job(tmp_path)
    Definitions(tmp_path).add(Definition(name="users", url="postgresql://ada:secret@db/shop", tables=("public.users",)))
    with running_node(tmp_path, NodeSettings(http=HttpSettings())) as node:
        shop = Shop(node, None)  # type: ignore[arg-type]  # no view is written
        (flow,) = shop.get("/flows").json
        assert (flow["name"], flow["running"]) == ("shop.orders", False)
        assert flow["state_bytes"] > 0
        assert shop.get("/flows/shop.orders").json["name"] == "shop.orders"
        (capture,) = shop.get("/captures").json
        assert (capture["name"], capture["state"]) == ("users", "not started")
        everything = b"".join(shop.get(path).body for path in ("/flows", "/captures", "/captures/users", "/metrics"))
    assert b'headwater_flow_running{flow="shop.orders"} 0' in everything
    assert b"secret" not in everything
