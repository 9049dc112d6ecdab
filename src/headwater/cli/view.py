"""headwater view: list, get, watch, rename, drop."""

import argparse
import json
import shutil
from contextlib import closing, nullcontext
from pathlib import Path

from headwater.cli.arguments import add_action, add_actions, add_data, add_json, checked, duration_seconds, positive
from headwater.cli.failure import Failure
from headwater.cli.output import Cell, note, say, write_json, write_table
from headwater.errors import StoreUnavailable
from headwater.views.full_text import index_folder
from headwater.views.locations import ViewLocation, view_locations
from headwater.views.plain import plain
from headwater.views.query import parse_condition
from headwater.views.store import ViewStore
from headwater.views.view import View


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    listing = add_action(actions, "list", "list views and their positions", run_list)
    getting = add_action(actions, "get", "show rows of a view", run_get)
    watching = add_action(actions, "watch", "show changes of a view as they come", run_watch)
    renaming = add_action(actions, "rename", "rename a view", run_rename)
    dropping = add_action(actions, "drop", "remove a view and its rows", run_drop)
    for child in (getting, watching, renaming, dropping):
        child.add_argument("view", metavar="VIEW", help="the view, as VIEW or APP.VIEW")
    getting.add_argument("key", metavar="KEY", nargs="*", help="the key of one row; without it, all rows")
    getting.add_argument(
        "--where", metavar="CONDITION", action="append", default=[], help='such as "amount > 100" or "currency = EUR"'
    )
    getting.add_argument("--order", metavar="COLUMN", default="", help='sort by a column, such as "amount desc"')
    getting.add_argument("--limit", metavar="N", type=checked(positive), default=20, help="rows at most (default: 20)")
    getting.add_argument(
        "--at-least", metavar="TOPIC/PARTITION@OFFSET", default="", help="wait until the view includes this record"
    )
    watching.add_argument(
        "--quiet-for",
        dest="seconds",
        metavar="TIME",
        type=checked(duration_seconds),
        help="stop when nothing has changed for a time",
    )
    renaming.add_argument("new", metavar="NEW", help="its new name")
    dropping.add_argument(
        "--force", action="store_true", help="also a view that an app still keeps; its next run builds it again"
    )
    for child in (listing, getting, watching, renaming, dropping):
        child.add_argument(
            "--store", metavar="URL", default="", help="where the views are, if not in the data directory"
        )
        add_data(child)
        add_json(child)


def names_in(kept: ViewLocation, store: ViewStore) -> list[str]:
    """Failure, with what may help, if a store that an app has named does not answer."""
    try:
        return store.views()
    except StoreUnavailable as error:
        raise Failure(
            f"views of {kept.app}: {error.args[0]}. Passwords are not kept: say them in PGPASSWORD or ~/.pgpass, or "
            "the whole URL with --store"
        ) from error


def run_list(arguments: argparse.Namespace) -> int:
    """Exit code 1 if one of the stores does not answer; the views of the others are shown all the same."""
    rows: list[list[Cell]] = []
    failures = []
    for kept in view_locations(arguments.data, arguments.store):
        with closing(kept.open()) as store:
            try:
                rows += [_line(kept, store, name) for name in names_in(kept, store)]
            except Failure as failure:
                failures.append(failure)
    if arguments.json:
        names = ("view", "rows", "key", "position")
        write_json([dict(zip(names, row, strict=True)) for row in rows])
    elif rows:
        write_table(["view", "rows", "key", "position"], rows)
    elif not failures:
        say(f'there are no views in {arguments.data} yet; "headwater run APP.py" makes those an app declares')
    for one in failures:
        note(f"headwater: {one}.")
    return 1 if failures else 0


def _line(kept: ViewLocation, store: ViewStore, name: str) -> list[Cell]:
    view = View(store, name)
    return [f"{kept.app}.{name}", view.count(), ", ".join(view.key), json.dumps(view.position())]


def opened(arguments: argparse.Namespace) -> View:
    kept, name = located(arguments)
    return View(kept.open(), name)


def located(arguments: argparse.Namespace) -> tuple[ViewLocation, str]:
    """Where the view is that was named, as VIEW or APP.VIEW."""
    app, dot, name = arguments.view.rpartition(".")
    candidates = [kept for kept in view_locations(arguments.data, arguments.store) if not dot or kept.app == app]
    if not candidates and dot:
        candidates = [ViewLocation(app, arguments.store or arguments.data)]
    if not candidates:
        raise Failure(f"there are no views in {arguments.data}. Say where the data is with --data DIR")
    found, failures = [], []
    for kept in candidates:
        with closing(kept.open()) as store:
            try:
                found += [kept] if name in names_in(kept, store) else []
            except Failure as failure:
                failures.append(failure)
    if not found and failures:
        raise failures[0]
    if len(found) != 1:
        known = ", ".join(f"{one.app}.{name}" for one in found)
        raise Failure(
            f"several apps have a view {name}: {known}. Name one of them"
            if found
            else f'there is no view {arguments.view} in {arguments.data}. See "headwater view list"'
        )
    return found[0], name


def run_get(arguments: argparse.Namespace) -> int:
    with opened(arguments) as view:
        at_least = position_of(arguments.at_least) if arguments.at_least else None
        if arguments.key:
            if len(arguments.key) != len(view.key):
                raise Failure(f"the key of {view.name} has {len(view.key)} columns: {', '.join(view.key)}")
            row = view.get(*arguments.key, at_least=at_least)
            rows = [] if row is None else [row]
        else:
            where = dict(parse_condition(text) for text in arguments.where)
            rows = view.rows(where=where, order=arguments.order or None, limit=arguments.limit, at_least=at_least)
        columns = view.columns
    show(columns, rows, as_json=arguments.json)
    return 0 if rows or not arguments.key else 1


def run_watch(arguments: argparse.Namespace) -> int:
    with opened(arguments) as view:
        for change in view.watch(timeout=arguments.seconds):
            write_json(plain({"key": change.key, "row": change.row}))
    return 0


def run_rename(arguments: argparse.Namespace) -> int:
    """The order makes it safe to say it again after a crash: what was done is passed over."""
    from headwater.flow.deploy.kept_outputs import at_rest, rename_output, writer_of

    kept, name = located_or_renamed(arguments)
    check_view_name(arguments.new)
    job = writer_of(arguments.data, kept.app, name)
    with at_rest(job) if job is not None else nullcontext() as folder, closing(kept.open(read_only=False)) as store:
        if name in store.views():
            store.rename(name, arguments.new)
        remove_index(arguments.data, kept.app, name)
        if folder is not None:
            rename_output(folder, name, arguments.new)
    message = f"view {kept.app}.{name} is now {kept.app}.{arguments.new}"
    if job is not None:
        message += f'; call it {arguments.new} in the app too, or its next run builds "{name}" again beside it'
    answer(arguments, message, view=f"{kept.app}.{arguments.new}", was=f"{kept.app}.{name}")
    return 0


def run_drop(arguments: argparse.Namespace) -> int:
    from headwater.flow.deploy.kept_outputs import at_rest, forget_output, writer_of

    kept, name = located(arguments)
    job = writer_of(arguments.data, kept.app, name)
    if job is not None and not arguments.force:
        raise Failure(
            f"view {kept.app}.{name} is kept up to date by job {job}. Take it out of the app and run that once, then "
            "drop it; or say --force: the next run builds it again"
        )
    with at_rest(job) if job is not None else nullcontext() as folder, closing(kept.open(read_only=False)) as store:
        if folder is not None:
            forget_output(folder, name)
        store.drop_shadow(name)
        store.drop(name)
        remove_index(arguments.data, kept.app, name)
    again = f"; the next run of app {kept.app} builds it again if it still declares it" if job is not None else ""
    answer(arguments, f"dropped view {kept.app}.{name}{again}", dropped=f"{kept.app}.{name}")
    return 0


def located_or_renamed(arguments: argparse.Namespace) -> tuple[ViewLocation, str]:
    """Returns the view; or, if a rename was interrupted after its first half, the view under its new name."""
    from headwater.flow.deploy.kept_outputs import writer_of

    try:
        return located(arguments)
    except Failure:
        app, _, name = arguments.view.rpartition(".")
        for kept in view_locations(arguments.data, arguments.store):
            with closing(kept.open()) as store:
                half = app in ("", kept.app) and arguments.new in store.views()
            if half and writer_of(arguments.data, kept.app, name) is not None:
                return kept, name
        raise


def check_view_name(name: str) -> None:
    from headwater.flow.declare.app import VIEW_NAME

    if not VIEW_NAME.fullmatch(name):
        raise Failure(f"{name!r} cannot name a view. Use up to 60 letters, digits and underscores")


def remove_index(data: Path, app: str, view: str) -> None:
    """The words of a view are indexed again, from its rows, by the next run of an app that searches it."""
    shutil.rmtree(index_folder(data, app, view), ignore_errors=True)


def answer(arguments: argparse.Namespace, sentence: str, **facts: str) -> None:
    if arguments.json:
        write_json(facts)
    else:
        say(sentence)


def position_of(text: str) -> dict[str, dict[int, int]]:
    topic, slash, rest = text.rpartition("/")
    partition, at, offset = rest.partition("@")
    if not slash or not at or not partition.isdigit() or not offset.isdigit():
        raise Failure(f"{text!r} is not TOPIC/PARTITION@OFFSET, such as orders/0@41")
    return {topic: {int(partition): int(offset) + 1}}


def show(columns: tuple[str, ...], rows: list[dict[str, object]], *, as_json: bool) -> None:
    if as_json:
        write_json([plain(row) for row in rows])
    else:
        write_table(list(columns), [[cell(row.get(name)) for name in columns] for row in rows])


def cell(value: object) -> Cell:
    value = plain(value)
    if value is None or isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    return json.dumps(value, ensure_ascii=False)
