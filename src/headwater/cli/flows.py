"""What the commands about flows share: an app from a file, and a Spark session for as long as it is needed."""

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.cli.arguments import add_connection, checked, setting
from headwater.cli.failure import Failure

if TYPE_CHECKING:
    from headwater.flow.declare.app import App
    from headwater.flow.session import SparkSession

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


def remember(arguments: argparse.Namespace, app: str) -> None:
    """So that commands which are only given the name of a view find the code it is made by."""
    folder = arguments.data / FLOWS / app
    folder.mkdir(parents=True, exist_ok=True)
    (folder / APP_FILE).write_text(json.dumps({"file": str(arguments.file.absolute())}))


def remembered(data: Path) -> dict[str, Path]:
    """The apps that have run on a data directory, and the files that declare them."""
    return {
        place.parent.name: Path(json.loads(place.read_text())["file"])
        for place in sorted((data / FLOWS).glob(f"*/{APP_FILE}"))
    }


@contextmanager
def spark(arguments: argparse.Namespace, name: str) -> "Iterator[SparkSession]":
    """A session that ends with the block. What Spark has to say goes to a file in the data directory."""
    # Loaded only where it is needed: it takes a second that no other command should wait for.
    from headwater.flow.job.explaining import explain
    from headwater.flow.session import SPARK_ERRORS, start_session, stop_session

    session = start_session(
        name, arguments.data.absolute() / FLOWS, master=arguments.master, settings=dict(arguments.conf)
    )
    try:
        yield session
    except SPARK_ERRORS as error:
        # Its text has to be asked for while the JVM is there.
        raise Failure(f"Spark failed: {explain(error)}") from error
    finally:
        stop_session(session)
