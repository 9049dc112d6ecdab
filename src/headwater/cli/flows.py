"""What the commands about flows share: an app from a file, and a Spark session for as long as it is needed."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.cli.alert_definitions import define_alerts
from headwater.cli.arguments import add_connection, checked, setting
from headwater.cli.connection import reach
from headwater.cli.failure import Failure
from headwater.errors import StoreUnavailable
from headwater.log.storage import LocalStorage, write_small_file
from headwater.secret_urls import without_secrets
from headwater.views.locations import APP_FILE, KnownApp, known_apps

if TYPE_CHECKING:
    from headwater.flow.declare.app import App
    from headwater.flow.deploy.kept_outputs import Left
    from headwater.flow.session import SparkSession, Starting

FLOWS = "flows"


def add_app(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="APP.py", type=Path, help="the Python or SQL file that declares the app")
    parser.add_argument("--app", metavar="NAME", default="", help="which app, if the file declares several")


def add_spark(parser: argparse.ArgumentParser) -> None:
    add_connection(parser)
    parser.add_argument(
        "--store", metavar="URL", default="",
        help="where views that name no store of their own are kept: a postgresql:// URL (default: as the app says, "
        "or where it ran with last)",
    )  # fmt: skip
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
    """The app, with its views where --store says, or where the last run with --store has kept them."""
    from headwater.flow.declare.checks.loading import load_app

    app = load_app(arguments.file, arguments.app)
    known = remembered(arguments.data).get(app.name)
    arguments.store = getattr(arguments, "store", "") or ("" if known is None else known.store)
    if arguments.store:
        app.keep_views_in(arguments.store)
    return app


def check(app: "App") -> None:
    """InvalidDeclaration, before Spark takes its time to start, for all that can be seen to be wrong without it."""
    from headwater.flow.declare.topology import graph
    from headwater.flow.plan.explanations import explain

    graph.check(app, explain)


def left_behind(app: "App", data: Path) -> "list[Left]":
    """What an app has written and declares no longer. A store that does not answer says nothing of it."""
    from headwater.flow.deploy.kept_outputs import left_over
    from headwater.views.locations import view_locations

    locations = [one for one in view_locations(data) if one.app == app.name]
    try:
        return left_over(data, app.name, app.outputs, locations)
    except StoreUnavailable:
        return left_over(data, app.name, app.outputs, [one for one in locations if one.where == data])


@contextmanager
def registry_for(arguments: argparse.Namespace, app: "App") -> Iterator[None]:
    """Schemas that the app takes from registries; if that of the node is among them, it answers within the block."""
    from headwater.flow.declare.topology.registered import asks_the_node, settle

    with reach(arguments, http=True) if asks_the_node(app) else nullcontext():
        settle(app, arguments.data)
        yield


def remember(arguments: argparse.Namespace, app: "App") -> None:
    remember_app(arguments.data, app, arguments.file, getattr(arguments, "store", ""))
    define_alerts(arguments, app)


def remember_app(data: Path, app: "App", file: Path, store: str = "") -> None:
    """Records the app's file and stores, so that commands that get only a view's name find its code and its store."""
    from headwater.flow.declare.app import VIEW

    folder = data / FLOWS / app.name
    folder.mkdir(parents=True, exist_ok=True)
    stores = {one.store for one in app.outputs.values() if one.kind == VIEW and one.store}
    views = [one.name for one in app.outputs.values() if one.kind == VIEW and not one.store]
    said = {
        "file": str(file.absolute()),
        "stores": sorted(map(without_secrets, stores)),
        "views": sorted(views),
        **({"store": without_secrets(store)} if store else {}),
    }
    write_small_file(LocalStorage(folder), APP_FILE, said)


def remembered(data: Path) -> dict[str, KnownApp]:
    """The apps that have run on a data directory."""
    return known_apps(data)


def refuse_unreachable_log(arguments: argparse.Namespace) -> None:
    """Failure if executors would look on their own machines for the log of this one."""
    from headwater.flow.executors.masters import executors_elsewhere

    if executors_elsewhere(arguments.master) and arguments.kafka is None:
        raise Failure(
            f"executors of {arguments.master} read the log over the network; name it with --log kafka://HOST:PORT[,...]"
        )


@contextmanager
def beginning_spark(arguments: argparse.Namespace, name: str) -> "Iterator[Starting]":
    """Spark on its way up; all of it ends with the block. What it has to say goes to a file in the data directory."""
    # Loaded only where it is needed: it takes a while that no other command should wait for.
    from headwater.flow.session import SPARK_ERRORS, begin_session

    folder = arguments.data.absolute() / FLOWS
    refuse_unreachable_log(arguments)
    starting = begin_session(
        name, folder, master=arguments.master, settings=dict(arguments.conf), app=getattr(arguments, "file", None)
    )
    try:
        yield starting
    except SPARK_ERRORS as error:
        from headwater.flow.plan.explanations import explain

        # Its text has to be asked for while the JVM is there.
        raise Failure(f"Spark failed: {explain(error)}") from error
    finally:
        starting.end()


@contextmanager
def spark(arguments: argparse.Namespace, name: str) -> "Iterator[SparkSession]":
    """A session that ends with the block."""
    with beginning_spark(arguments, name) as starting:
        yield starting.finish()
