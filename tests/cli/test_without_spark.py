"""headwater without the extra for flows: the log and its ports work, and a command for flows names the extra."""

import subprocess
import sys
from pathlib import Path

import pytest

from headwater.errors.flows import FLOW_PACKAGES

SENTENCE = 'which is not installed. Install it with: pip install "headwater[flow]"'
HIDDEN = f"""
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {set(FLOW_PACKAGES)!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
"""


def without_spark(program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", HIDDEN + program, *arguments], capture_output=True, text=True, check=False
    )


def headwater(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return without_spark("from headwater.cli.main import main; sys.exit(main(sys.argv[1:]))", *arguments)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    app = tmp_path / "shop.py"
    app.write_text(
        'import headwater as hw\napp = hw.App("shop")\norders = app.stream("orders", "id string")\n'
        '@app.view(key="id")\ndef newest():\n    return orders.latest("id")\n'
    )
    return app


@pytest.mark.parametrize("verb", ["run", "plan"])
def test_a_command_for_flows_names_the_extra(verb: str, shop: Path, tmp_path: Path) -> None:
    once = ["--once"] if verb == "run" else []
    done = headwater(verb, str(shop), "--data", str(tmp_path / "data"), *once)
    assert done.returncode == 1
    assert SENTENCE in done.stderr
    assert "Traceback" not in done.stderr


def test_an_app_that_imports_pyspark_names_the_extra(shop: Path, tmp_path: Path) -> None:
    shop.write_text("from pyspark.sql import functions as f\n" + shop.read_text())
    done = headwater("run", str(shop), "--data", str(tmp_path / "data"), "--once")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("headwater: flows need the package ")
    assert SENTENCE in done.stderr


def test_a_node_keeps_records_and_serves_http(tmp_path: Path) -> None:
    done = without_spark(
        "import json, urllib.request\n"
        "from headwater.record import Record\n"
        "from headwater.settings import HttpSettings, NodeSettings\n"
        "from headwater.testing import running_node\n"
        "with running_node(sys.argv[1], NodeSettings(http=HttpSettings())) as node:\n"
        "    node.log.create_topic('orders')\n"
        "    node.log.append('orders', [Record(b'{}')])\n"
        "    with urllib.request.urlopen(f'{node.http_url}/topics') as answer:\n"
        "        print([topic['name'] for topic in json.load(answer)])\n",
        str(tmp_path / "data"),
    )
    assert (done.stdout, done.returncode) == ("['orders']\n", 0), done.stderr
