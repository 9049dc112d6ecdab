"""headwater verify: recompute views from the log and compare."""

import argparse
import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.cli.arguments import add_json
from headwater.cli.connection import reach
from headwater.cli.failure import Failure
from headwater.cli.flows import add_spark, load, remembered, spark
from headwater.cli.output import counted, note, say, write_json
from headwater.views.plain import plain

if TYPE_CHECKING:
    from headwater.flow.job.verifying import Verified


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("view", metavar="VIEW", nargs="*", help="views to prove, as VIEW or APP.VIEW (default: all)")
    parser.add_argument("--file", metavar="APP.py", type=Path, help="the app's file, if it is not where it last ran")
    parser.add_argument("--app", metavar="NAME", default="", help="which app, if there are several")
    add_spark(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Exit code 1 if a view is not what the log says."""
    arguments.data = arguments.data.absolute()
    from headwater.flow.declare.registered import asks_the_node

    names = find_app(arguments)
    app = load(arguments)
    results = []
    with ExitStack() as stack:
        address = stack.enter_context(reach(arguments, http=asks_the_node(app)))
        session = stack.enter_context(spark(arguments, app.name))
        from headwater.flow.job.proving import prove

        for name in names or sorted(name for name, one in app.outputs.items() if one.kind == "view"):
            note(f"recomputing {name}")
            results.append(prove(app, name, session, arguments.data, address, direct=arguments.kafka is None))
    for result in results:
        tell(result, as_json=arguments.json)
    return 1 if any(result.different for result in results) else 0


def find_app(arguments: argparse.Namespace) -> list[str]:
    """Set the file of the app that the views belong to; answers the names of the views without it."""
    apps = {name.rpartition(".")[0] for name in arguments.view} - {""}
    arguments.app = arguments.app or (apps.pop() if len(apps) == 1 else "")
    if arguments.file is None:
        known = remembered(arguments.data)
        if not known:
            raise Failure(f'no app has run on {arguments.data} yet. Run one with "headwater run APP.py"')
        if not arguments.app and len(known) > 1:
            raise Failure(f"several apps have run here: {', '.join(known)}. Say which with --app NAME")
        arguments.app = arguments.app or next(iter(known))
        if arguments.app not in known:
            raise Failure(f"no app {arguments.app} has run on {arguments.data}. There are: {', '.join(known)}")
        arguments.file = known[arguments.app].file
    return [name.rpartition(".")[2] for name in arguments.view]


def tell(result: "Verified", *, as_json: bool) -> None:
    if as_json:
        differences = [
            {"key": one.key, "view": one.view, "log": one.log, "offsets": one.offsets} for one in result.shown
        ]
        told = {"view": result.view, "rows": result.rows, "different": result.different, "position": result.position}
        write_json(plain({**told, "differences": differences}))
    elif not result.different:
        say(f"{result.view}: {counted(result.rows, 'row')} as the log says, at {json.dumps(result.position)}")
    else:
        say(f"{result.view}: {counted(result.different, 'key')} of {result.rows:,} differ from the log")
        for one in result.shown:
            say(f"  {json.dumps(plain(dict(one.key)))}")
            say(f"    view:    {json.dumps(plain(dict(one.view))) if one.view else 'no such row'}")
            say(f"    log:     {json.dumps(plain(dict(one.log))) if one.log else 'no such row'}")
            say(f"    records: {', '.join(one.offsets) or 'unknown'}")
