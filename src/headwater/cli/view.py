"""headwater view: list, get, watch."""

import argparse
import json
from contextlib import closing

from headwater.cli.arguments import add_action, add_actions, add_data, add_json, checked, duration_seconds, positive
from headwater.cli.failure import Failure
from headwater.cli.output import Cell, note, say, write_json, write_table
from headwater.errors import StoreUnavailable
from headwater.views.places import Kept, places_of_views
from headwater.views.plain import plain
from headwater.views.query import parse_condition
from headwater.views.store import ViewStore
from headwater.views.view import View


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    listing = add_action(actions, "list", "name all views and how far they are", run_list)
    getting = add_action(actions, "get", "show rows of a view", run_get)
    watching = add_action(actions, "watch", "show changes of a view as they come", run_watch)
    for child in (getting, watching):
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
    for child in (listing, getting, watching):
        child.add_argument(
            "--store", metavar="URL", default="", help="where the views are, if not in the data directory"
        )
        add_data(child)
        add_json(child)


def names_in(kept: Kept, store: ViewStore) -> list[str]:
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
    for kept in places_of_views(arguments.data, arguments.store):
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


def _line(kept: Kept, store: ViewStore, name: str) -> list[Cell]:
    view = View(store, name)
    return [f"{kept.app}.{name}", view.count(), ", ".join(view.key), json.dumps(view.position())]


def opened(arguments: argparse.Namespace) -> View:
    app, dot, name = arguments.view.rpartition(".")
    candidates = [kept for kept in places_of_views(arguments.data, arguments.store) if not dot or kept.app == app]
    if not candidates and dot:
        candidates = [Kept(app, arguments.store or arguments.data)]
    if not candidates:
        raise Failure(f"there are no views in {arguments.data}. Say where the data is with --data DIR")
    found, failures = [], []
    for kept in candidates:
        store = kept.open()
        try:
            there = name in names_in(kept, store)
        except Failure as failure:
            there = False
            failures.append(failure)
        if there:
            found.append((kept.app, store))
        else:
            store.close()
    if not found and failures:
        raise failures[0]
    if len(found) != 1:
        known = ", ".join(f"{one}.{name}" for one, _ in found)
        raise Failure(
            f"several apps have a view {name}: {known}. Name one of them"
            if found
            else f'there is no view {arguments.view} in {arguments.data}. See "headwater view list"'
        )
    return View(found[0][1], name)


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
