"""headwater verify: recompute views from the log and compare."""

import argparse
import json
from collections.abc import Sequence
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
    from headwater.flow.declare.app import App
    from headwater.flow.proof.proofs import Checked, Unproved
    from headwater.flow.proof.verification import Verified

UNPROVABLE_CODE = 3
"""Nothing differs, and yet not everything is proved, or has left a checkpoint that was to."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("view", metavar="VIEW", nargs="*", help="views to prove, as VIEW or APP.VIEW (default: all)")
    parser.add_argument(
        "--file", metavar="FILE", type=Path, help="the app's file (.py or .sql), if it is not where it last ran"
    )
    parser.add_argument("--app", metavar="NAME", default="", help="which app, if there are several")
    parser.add_argument(
        "--allow-late", action="store_true",
        help="accept views that would be otherwise with the rows that were declared late (default: exit with 1)",
    )  # fmt: skip
    certificates = parser.add_mutually_exclusive_group()
    certificates.add_argument(
        "--certificate", metavar="FILE", type=Path, help="write what the proved views hold, to be checked elsewhere"
    )
    certificates.add_argument(
        "--check", metavar="FILE", type=Path, help="recompute what a certificate says, from the log that is here"
    )
    parser.add_argument(
        "--checkpoint", action="store_true",
        help="keep what a proof computed, so that views can be proved when retention has removed their first records",
    )  # fmt: skip
    add_spark(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Exit code 1 if a view is not what all rows of the log say, 3 if none is but one could not be proved."""
    arguments.data = arguments.data.absolute()
    from headwater.flow.declare.topology.registered import asks_the_node

    names = find_app(arguments)
    app = load(arguments)
    _refuse_unknown(app, names)
    results: list[Verified | Unproved] = []
    with ExitStack() as stack:
        address = stack.enter_context(reach(arguments, http=asks_the_node(app)))
        if arguments.check is not None:
            return _check(arguments, app, names, stack, address)
        session = stack.enter_context(spark(arguments, app.name))
        from headwater.flow.proof.proofs import prove_each
        from headwater.flow.proof.verification import Wanted

        note(f"recomputing {', '.join(names) or 'all views'}")
        for result in prove_each(
            app, names, session, arguments.data, address, direct=arguments.kafka is None,
            wanted=Wanted(certificate=arguments.certificate is not None, checkpoint=arguments.checkpoint),
        ):  # fmt: skip
            show(result, as_json=arguments.json)
            results.append(result)
    if arguments.certificate is not None:
        _certify(arguments.certificate, app.name, results)
    if not arguments.json and len(results) != 1:
        say(summary(results))
    code = exit_code([one.result for one in results], allow_late=arguments.allow_late)
    return code or (UNPROVABLE_CODE if any(getattr(one, "unkept", "") for one in results) else 0)


def _refuse_unknown(app: "App", names: Sequence[str]) -> None:
    from headwater.flow.declare.app import VIEW

    known = sorted(name for name, output in app.outputs.items() if output.kind == VIEW)
    if unknown := [name for name in names if name not in known]:
        raise Failure(f"app {app.name} has no view {unknown[0]}. It has: {', '.join(known) or 'none'}")


def _certify(file: Path, app: str, results: "Sequence[Verified | Unproved]") -> None:
    from headwater.flow.proof.certificate import write_certificates
    from headwater.flow.proof.proofs import Unproved, certificate_of

    made = [certificate_of(app, one) for one in results if not isinstance(one, Unproved)]
    certificates = [one for one in made if one is not None]
    write_certificates(file, certificates)
    note(f"{file} certifies {counted(len(certificates), 'view')}")


def _check(arguments: argparse.Namespace, app: "App", names: Sequence[str], stack: ExitStack, address: str) -> int:
    from headwater.flow.proof.certificate import read_certificates

    certificates = [one for one in read_certificates(arguments.check) if one.view in names or not names]
    if others := sorted({one.app for one in certificates} - {app.name}):
        raise Failure(f"{arguments.check} is of app {others[0]}, and this is {app.name}. Name the app with --app")
    if not certificates:
        raise Failure(f"{arguments.check} says nothing of {', '.join(names) or 'any view'}")
    session = stack.enter_context(spark(arguments, app.name))
    from headwater.flow.proof.proofs import Checked, check_each

    note(f"recomputing {', '.join(one.view for one in certificates)}")
    found: list[Checked | Unproved] = []
    direct = arguments.kafka is None
    for one in check_each(app, certificates, session, arguments.data, address, direct=direct):
        show_checked(one, as_json=arguments.json)
        found.append(one)
    if any(isinstance(one, Checked) and not one.holds for one in found):
        return 1
    return 0 if all(isinstance(one, Checked) for one in found) else UNPROVABLE_CODE


def show_checked(checked: "Checked | Unproved", *, as_json: bool) -> None:
    from headwater.flow.proof.proofs import Unproved

    if isinstance(checked, Unproved):
        show(checked, as_json=as_json)
        return
    said, content = checked.certificate, checked.content
    if as_json:
        write_json({"view": said.view, "result": "holds" if checked.holds else "different", "certificate":
                    said.to_json(), "rows": content.rows, "digest": content.digest})  # fmt: skip
    elif checked.holds:
        but = f" but for {', '.join(content.left_out)}" if content.left_out else ""
        say(f"{said.view}: {counted(content.rows, 'row')} as the certificate says{but}, at {json.dumps(said.position)}")
    else:
        say(f"{said.view}: the log says otherwise than the certificate at {json.dumps(said.position)}")
        say(f"  certificate: {counted(said.content.rows, 'row')} of {', '.join(said.content.columns)}, "
            f"digest {said.content.digest}")  # fmt: skip
        say(f"  log:         {counted(content.rows, 'row')} of {', '.join(content.columns)}, digest {content.digest}")


def exit_code(results: Sequence[str], *, allow_late: bool) -> int:
    """
    >>> late = ["proved", "rests on late rows"]
    >>> exit_code(late, allow_late=False), exit_code(late, allow_late=True)
    (1, 0)
    >>> exit_code(["proved", "unprovable"], allow_late=False), exit_code(["different", "unprovable"], allow_late=True)
    (3, 1)
    """
    if "different" in results or ("rests on late rows" in results and not allow_late):
        return 1
    return UNPROVABLE_CODE if "unprovable" in results else 0


def summary(results: "Sequence[Verified | Unproved]") -> str:
    """How many of each, and which, but for those that are as they should be."""
    parts = []
    for result in ("proved", "rests on late rows", "different", "unprovable"):
        names = [one.view for one in results if one.result == result]
        if names:
            outcome = "rest on late rows" if result == "rests on late rows" and len(names) > 1 else result
            parts.append(f"{len(names)} {outcome}" + ("" if result == "proved" else f" ({', '.join(names)})"))
    return f"{counted(len(results), 'view')}: {', '.join(parts) or 'there is nothing to prove'}"


def find_app(arguments: argparse.Namespace) -> list[str]:
    """Set the file of the app that the views belong to; returns the names of the views without it."""
    if files := [name for name in arguments.view if name.endswith((".py", ".sql"))]:
        raise Failure(
            f"{files[0]} is the file of an app, and no view. Write --file {files[0]}, and names of views if any"
        )
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


def show(result: "Verified | Unproved", *, as_json: bool) -> None:
    from headwater.flow.proof.proofs import Unproved

    if isinstance(result, Unproved):
        if as_json:
            write_json({"view": result.view, "result": result.result, "why": result.why})
        else:
            say(f"{result.view}: cannot be proved: {result.why}")
        return
    _tell_verified(result, as_json=as_json)


def _tell_verified(result: "Verified", *, as_json: bool) -> None:
    if as_json:
        differences = [
            {"key": one.key, "view": one.view, "log": one.log, "offsets": one.offsets} for one in result.shown
        ]
        report = {"view": result.view, "result": result.result, "rows": result.rows, "different": result.different}
        late = [{"record": one.record, "batch": one.batch, "reason": one.reason} for one in result.late_shown]
        rests = {"late": result.late, "late_rows": late, "otherwise": result.otherwise}
        kept = {"since": result.since, "checkpoint": result.kept, "no_checkpoint": result.unkept or None}
        write_json(plain({**report, "position": result.position, "differences": differences, **rests, **kept}))
        return
    if not result.different:
        but = f" but for {counted(result.late, 'row')} declared late" if result.otherwise else ""
        since = f", with the checkpoint of {json.dumps(result.since)}" if result.since else ""
        rows = counted(result.rows, "row")
        say(f"{result.view}: {rows} as the log says{but}, at {json.dumps(result.position)}{since}")
    else:
        say(f"{result.view}: {counted(result.different, 'key')} of {result.rows:,} differ from the log")
        for one in result.shown:
            say(f"  {json.dumps(plain(dict(one.key)))}")
            say(f"    view:    {json.dumps(plain(dict(one.view))) if one.view else 'no such row'}")
            say(f"    log:     {json.dumps(plain(dict(one.log))) if one.log else 'no such row'}")
            say(f"    records: {', '.join(one.offsets) or 'unknown'}")
    if result.kept or result.unkept:
        say(f"  {result.unkept or 'it has left a checkpoint'}")
    if result.late and (result.different or result.otherwise):
        _tell_late(result)


def _tell_late(result: "Verified") -> None:
    """What it rests on, beside the log."""
    then = f"; with them {counted(result.otherwise, 'key')} would be otherwise" if result.otherwise else ""
    say(f"  rests on {counted(result.late, 'row')} declared late{then}. A rebuild reads them again:")
    for one in result.late_shown:
        say(f"    {one.record} in batch {one.batch}: {one.reason}")
    if result.late > len(result.late_shown):
        say("    … all: headwater late show")
