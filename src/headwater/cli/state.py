"""headwater state: show, check and reshard what operators keep between batches. Needs neither Spark nor a node."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.cli.arguments import add_action, add_actions, add_data, add_json, checked, positive
from headwater.cli.failure import Failure
from headwater.cli.output import Cell, counted, say, write_json, write_table
from headwater.cli.view import cell
from headwater.views.plain import plain

if TYPE_CHECKING:
    from headwater.flow.deploy.inventory import KeptJob, KeptOperator
    from headwater.flow.state.inspecting import VersionSummary

DAMAGED = 1
ROWS_SHOWN = 20
VERSION_COLUMNS = ["operator", "version", "shards", "keys", "bytes", "runs"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    showing = add_action(actions, "show", "versions, shards, keys and bytes; with --key or --limit, rows", run_show)
    checking = add_action(actions, "check", "read every file of every version and compare its checksum", run_check)
    resharding = add_action(actions, "reshard", "change the number of shards of a stopped job's state", run_reshard)
    for child in (showing, checking):
        child.add_argument("name", metavar="APP[.JOB[.OPERATOR]]", nargs="?", default="", help="which (default: all)")
    showing.add_argument("--key", metavar="VALUE", nargs="+", help="show the row with this key")
    showing.add_argument("--limit", metavar="N", type=checked(positive), help="show up to N rows")
    resharding.add_argument("name", metavar="APP.JOB", help="the job")
    resharding.add_argument(
        "--shards", metavar="N", type=checked(power_of_two), required=True, help="how many: 1, 2, 4 and so on"
    )
    for child in (showing, checking, resharding):
        add_data(child)
        add_json(child)


def power_of_two(text: str) -> int:
    """
    >>> power_of_two("8")
    8
    """
    if not text.isdecimal() or int(text) < 1 or int(text) & (int(text) - 1):
        raise ValueError(f"{text!r} is not a power of two, such as 1, 2, 4 or 8")
    return int(text)


# -- show --------------------------------------------------------------------------------------------------------------


def run_show(arguments: argparse.Namespace) -> int:
    operators = operators_of(arguments)
    if arguments.key or arguments.limit:
        return show_rows(one_of(operators, arguments), arguments)
    # One operator is shown with its history, many with where they are.
    kept = [(one, one.versions() if len(operators) == 1 else one.versions()[-1:]) for one in operators]
    if arguments.json:
        write_json([as_json(operator, operator.versions()) for operator, _ in kept])
    elif any(versions for _, versions in kept):
        write_table(VERSION_COLUMNS, [row(operator, version) for operator, versions in kept for version in versions])
    else:
        say(f'there is no state in {arguments.data} yet; "headwater run APP.py" makes it where an app needs it')
    return 0


def operators_of(arguments: argparse.Namespace) -> "list[KeptOperator]":
    from headwater.flow.deploy.inventory import chosen

    if not arguments.data.is_dir():
        raise Failure(f"there is no data directory {arguments.data}. Say where the data is with --data DIR")
    return chosen(arguments.data, arguments.name)[1]


def one_of(operators: "list[KeptOperator]", arguments: argparse.Namespace) -> "KeptOperator":
    if len(operators) != 1:
        known = ", ".join(map(str, operators)) or "none"
        raise Failure(f"rows are shown of one operator: name it as APP.JOB.OPERATOR. There are: {known}")
    return operators[0]


def row(operator: "KeptOperator", version: "VersionSummary") -> list[Cell]:
    runs = sum(shard.runs for shard in version.shards)
    return [str(operator), version.version, len(version.shards), version.keys, version.bytes, runs]


def as_json(operator: "KeptOperator", versions: "list[VersionSummary]") -> dict[str, object]:
    job = operator.job
    return {
        "app": job.app,
        "job": job.name,
        "operator": operator.name,
        "columns": list(versions[-1].columns) if versions else [],
        "versions": [
            {
                "version": one.version,
                "base": one.base,
                "keys": one.keys,
                "bytes": one.bytes,
                "shards": [{"keys": shard.keys, "bytes": shard.bytes, "runs": shard.runs} for shard in one.shards],
            }
            for one in versions
        ],
    }


def show_rows(operator: "KeptOperator", arguments: argparse.Namespace) -> int:
    from headwater.flow.state.inspecting import show

    # What puts rows of one key in order is none of the user's columns.
    names, given = [name for name in operator.key() if not name.startswith("_")], arguments.key or []
    if given and len(given) != len(names):
        raise Failure(f"the key of {operator} has {counted(len(names), 'column')}: {', '.join(names)}")
    try:
        table = show(operator.store.files, dict(zip(names, given, strict=False)), limit=arguments.limit or ROWS_SHOWN)
    except (ValueError, NotImplementedError) as error:
        raise Failure(f"{' '.join(given)!r} cannot be a key of {operator}: {error}") from None
    rows = table.to_pylist()
    if arguments.json:
        write_json([plain(one) for one in rows])
    else:
        columns = list(table.schema.names)
        write_table(columns, [[cell(one[name]) for name in columns] for one in rows])
    return 0 if rows or not given else 1


# -- check -------------------------------------------------------------------------------------------------------------


def run_check(arguments: argparse.Namespace) -> int:
    """Exit code 1 if something is damaged."""
    operators = operators_of(arguments)
    found = {str(one): one.check() for one in operators}
    problems = [f"{name}: {problem}" for name, sentences in found.items() for problem in sentences]
    versions = sum(len(one.store.versions()) for one in operators)
    if arguments.json:
        write_json({"sound": not problems, "operators": len(operators), "versions": versions, "problems": problems})
    else:
        for problem in problems:
            say(problem)
        verdict = f"{counted(len(problems), 'problem')} found" if problems else "everything is sound"
        say(f"{counted(versions, 'version')} of {counted(len(operators), 'operator')} checked: {verdict}")
    return DAMAGED if problems else 0


# -- reshard -----------------------------------------------------------------------------------------------------------


def run_reshard(arguments: argparse.Namespace) -> int:
    from headwater.flow.deploy.resharding import reshard_job

    job = job_named(arguments.data, arguments.name)
    done = reshard_job(job, arguments.shards)
    if arguments.json:
        written = {"before": done.before, "after": done.after, "operators": list(done.operators)}
        write_json({"app": job.app, "job": job.name, **written})
    elif done.before == done.after and not done.operators:
        say(f"job {job} has {counted(done.after, 'shard')} already")
    else:
        state = counted(len(done.operators), "operator")
        say(f"job {job} has {counted(done.after, 'shard')} now, and had {done.before}: state of {state} rewritten")
    return 0


def job_named(data: Path, name: str) -> "KeptJob":
    from headwater.flow.deploy.inventory import jobs_in

    jobs = {str(job): job for job in jobs_in(data)}
    if name not in jobs:
        known = ", ".join(jobs) or "none"
        raise Failure(f"no job {name} has run on {data}. There are: {known}")
    return jobs[name]
