"""What the commands about flows share: an app from a file, and a Spark session for as long as it is needed."""

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.cli.alerting import define_alerts
from headwater.cli.arguments import add_connection, checked, setting
from headwater.cli.connection import reach
from headwater.cli.failure import Failure
from headwater.views.store import POSTGRES_SCHEMES, public_url

if TYPE_CHECKING:
    from headwater.flow.declare.app import App
    from headwater.flow.session import SparkSession, Starting

FLOWS = "flows"
APP_FILE = "app.json"


def add_app(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="APP.py", type=Path, help="the Python file that declares the app")
    parser.add_argument("--app", metavar="NAME", default="", help="which app, if the file declares several")


def add_spark(parser: argparse.ArgumentParser) -> None:
    add_connection(parser)
    parser.add_argument(
        "--master",
        metavar="URL",
        default="local[*,4]",
        help="the Spark master (default: all cores of this machine, local[*,4])",
    )
    parser.add_argument(
        "--conf", metavar="NAME=VALUE", type=checked(setting), action="append", default=[], help="a Spark setting"
    )


def load(arguments: argparse.Namespace) -> "App":
    from headwater.flow.declare.loading import load_app

    return load_app(arguments.file, arguments.app)


@dataclass(frozen=True)
class KnownApp:
    """An app that has run on a data directory."""

    file: Path
    stores: tuple[str, ...]
    """Where it keeps views, if not beside the log; passwords are not among what is remembered."""


@contextmanager
def registry_for(arguments: argparse.Namespace, app: "App") -> Iterator[None]:
    """Schemas that the app takes from registries; if that of the node is among them, it answers within the block."""
    from headwater.flow.declare.registered import asks_the_node, settle

    with reach(arguments, http=True) if asks_the_node(app) else nullcontext():
        settle(app, arguments.data)
        yield


def remember(arguments: argparse.Namespace, app: "App") -> None:
    """So that commands which are only given the name of a view find the code it is made by, and its place."""
    from headwater.flow.declare.app import VIEW

    folder = arguments.data / FLOWS / app.name
    folder.mkdir(parents=True, exist_ok=True)
    stores = {one.store for one in app.outputs.values() if one.kind == VIEW and one.store}
    said = {
        "file": str(arguments.file.absolute()),
        "stores": sorted(public_url(one) if one.startswith(POSTGRES_SCHEMES) else one for one in stores),
    }
    (folder / APP_FILE).write_text(json.dumps(said))
    define_alerts(arguments, app)


def remembered(data: Path) -> dict[str, KnownApp]:
    found = {}
    for place in sorted((data / FLOWS).glob(f"*/{APP_FILE}")):
        said = json.loads(place.read_text())
        found[place.parent.name] = KnownApp(Path(said["file"]), tuple(said.get("stores", ())))
    return found


@contextmanager
def beginning_spark(arguments: argparse.Namespace, name: str) -> "Iterator[Starting]":
    """Spark on its way up; all of it ends with the block. What it has to say goes to a file in the data directory."""
    # Loaded only where it is needed: it takes a while that no other command should wait for.
    from headwater.flow.session import SPARK_ERRORS, begin_session

    folder = arguments.data.absolute() / FLOWS
    starting = begin_session(name, folder, master=arguments.master, settings=dict(arguments.conf))
    try:
        yield starting
    except SPARK_ERRORS as error:
        from headwater.flow.job.explaining import explain

        # Its text has to be asked for while the JVM is there.
        raise Failure(f"Spark failed: {explain(error)}") from error
    finally:
        starting.end()


@contextmanager
def spark(arguments: argparse.Namespace, name: str) -> "Iterator[SparkSession]":
    """A session that ends with the block."""
    with beginning_spark(arguments, name) as starting:
        yield starting.finish()
