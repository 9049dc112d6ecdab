"""headwater plan: what an app reads, does, keeps and writes, before anything runs."""

import argparse
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from headwater.cli.arguments import add_json
from headwater.cli.connection import LOCK_FILE, reach
from headwater.cli.failure import Failure, sentence_of
from headwater.cli.flows import add_app, add_spark, check, left_behind, load, registry_for, spark
from headwater.cli.output import note, say, write_json
from headwater.errors import HeadwaterError, InvalidDeclaration

if TYPE_CHECKING:
    from headwater.flow.declare.app import App
    from headwater.flow.declare.pictures.outline import Outline
    from headwater.flow.declare.topology.graph import Job

FORMATS = ("text", "mermaid", "svg")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_app(parser)
    parser.add_argument("--format", choices=FORMATS, default="text", help="text (default), mermaid or svg")
    parser.add_argument("--output", metavar="FILE", type=Path, help="write to a file instead of standard output")
    asking = parser.add_mutually_exclusive_group()
    asking.add_argument("--columns", action="store_true", help="ask Spark for the columns of every output")
    asking.add_argument(
        "--no-spark", action="store_true", help="never start Spark, also where an earlier run is there to compare with"
    )
    add_spark(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    app = load(arguments)
    arguments.data = arguments.data.absolute()
    with registered(arguments, app) as known:
        check(app)
        described = outline_of(app, arguments, spark_may_start=known)
    if known and any(step.grows for job in described.jobs for step in job.steps):
        described = estimated(app, arguments, described)
    described = replace(described, removed=tuple(map(str, left_behind(app, arguments.data))))
    if arguments.json:
        write_json(described.to_json())
        return 0
    text = pictured(described, arguments.format)
    if arguments.output is None:
        say(text)
    else:
        arguments.output.write_text(f"{text}\n", encoding="utf-8")
        note(f"wrote {arguments.output}")
    return 0


def estimated(app: "App", arguments: argparse.Namespace, described: "Outline") -> "Outline":
    """With what state that grows for ever comes to by now, if there is a log to look at."""
    from headwater.flow.declare.pictures.outline import with_estimates
    from headwater.flow.kafka.client import Client
    from headwater.flow.plan.growth_estimates import growth_estimates

    growing = [(job.name, step.state) for job in described.jobs for step in job.steps if step.grows]
    if arguments.kafka is None and not (arguments.data / LOCK_FILE).exists():
        return with_estimates(described, dict.fromkeys(growing, "not estimated: there is no log yet"))
    try:
        with reach(arguments) as address, Client(address) as client:
            return with_estimates(described, growth_estimates(app, client, {"address": address}))
    except (Failure, HeadwaterError) as error:
        return with_estimates(described, dict.fromkeys(growing, f"not estimated: {sentence_of(error)}"))


@contextmanager
def registered(arguments: argparse.Namespace, app: "App") -> Iterator[bool]:
    """Whether all columns are known that the app takes from registries; before its first run they may not be."""
    with ExitStack() as stack:
        try:
            stack.enter_context(registry_for(arguments, app))
        except (Failure, HeadwaterError) as error:
            if isinstance(error, InvalidDeclaration) and not takes_schemas(app):
                raise
            note(f"columns that a registry has are not shown: {sentence_of(error)}")
            yield False
            return
        yield True


def takes_schemas(app: "App") -> bool:
    from headwater.flow.declare.topology.registered import Registered

    return any(isinstance(one.contents, Registered) for one in app.sources.values())


def outline_of(app: "App", arguments: argparse.Namespace, *, spark_may_start: bool = True) -> "Outline":
    """Starts Spark only for what only Spark can answer, and after every other check has passed."""
    from headwater.flow.declare.checks.loading import needs_session
    from headwater.flow.declare.pictures.outline import outline
    from headwater.flow.declare.topology.graph import plan
    from headwater.flow.plan.explanations import explain

    try:
        jobs = plan(app, explain)
        if arguments.no_spark or not spark_may_start or not (arguments.columns or has_run(app, jobs, arguments.data)):
            return outline(app, jobs)
    except InvalidDeclaration as error:
        if not needs_session(error):
            raise
        if not spark_may_start:
            raise Failure(
                f"app {app.name} uses PySpark columns, and what it reads is not known yet. Register the schemas, or "
                "run the app once, and plan again"
            ) from None
        if arguments.no_spark:
            raise Failure(
                f"app {app.name} uses PySpark columns, which only a Spark session can make. "
                "Leave --no-spark away, or write the columns as SQL text"
            ) from None
    # Who only looks at a plan does not want a data directory: what Spark writes goes elsewhere, and away.
    with TemporaryDirectory(prefix="headwater-plan-") as folder:
        own = argparse.Namespace(**{**vars(arguments), "data": Path(folder)})
        with spark(own, app.name) as session:
            from headwater.flow.plan.preview import preview

            return preview(session, app, arguments.data)


def has_run(app: "App", jobs: "list[Job]", data: Path) -> bool:
    from headwater.flow.deploy.inventory import checkpoint_of

    return any(checkpoint_of(data, app.name, job.name) is not None for job in jobs)


def pictured(described: "Outline", format: str) -> str:
    from headwater.flow.declare.pictures.drawing import as_svg
    from headwater.flow.declare.pictures.picture import as_mermaid, as_text, picture_of

    if format == "svg":
        return as_svg(picture_of(described))
    return as_mermaid(described) if format == "mermaid" else as_text(described)
