"""headwater capture: other systems' changes as topics."""

import argparse
import os
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.capture.declaration import size_bytes
from headwater.capture.definition import (
    FILES,
    MARIADB,
    SQLITE,
    STATSD,
    Definition,
    Definitions,
    check_url,
    kind_of,
    with_absolute_path,
    with_password,
)
from headwater.cli.arguments import add_action, add_actions, add_data, add_json, checked, duration_seconds, positive
from headwater.cli.connection import LOCK_FILE, locked
from headwater.cli.failure import Failure
from headwater.cli.output import Cell, note, say, write_json, write_table
from headwater.clock import SystemClock
from headwater.errors import CaptureError, InvalidCapture, UnknownCapture

if TYPE_CHECKING:
    from headwater.capture.finding import Finding

PASSWORD_VARIABLE, MARIADB_PASSWORD_VARIABLE = "PGPASSWORD", "MYSQL_PWD"
BAR_COLUMNS = 20
BEGIN_MS_MAX = 15_000
BEGUN = ("copying", "streaming")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    adding = add_action(actions, "add", "capture tables of a database into topics", run_add)
    listing = add_action(actions, "list", "list captures", run_list)
    status = add_action(actions, "status", "show the state, position and lag of captures", run_status)
    checking = add_action(
        actions, "check", "show what a database still lacks, and the statement that fixes it", run_check
    )
    removing = add_action(actions, "remove", "remove a capture and what it created in the database", run_remove)
    copying = add_action(actions, "snapshot", "copy tables again while changes are captured", run_snapshot)
    for child in (adding, removing, copying):
        child.add_argument("name", metavar="NAME", help="the capture")
    removing.add_argument(
        "--force", action="store_true", help="also where its database cannot be reached; what it created there stays"
    )
    status.add_argument("name", metavar="NAME", nargs="?", default="", help="one capture; without it, all of them")
    for child in (adding, checking):
        child.add_argument("url", metavar="URL", help="postgresql://user@host/database, whose password may come from "
                           f"${PASSWORD_VARIABLE} or ~/.pgpass; mysql://user@host/database, with "
                           f"${MARIADB_PASSWORD_VARIABLE}; sqlite:///path; statsd://127.0.0.1:8125; "
                           "file:///pattern")  # fmt: skip
        child.add_argument(
            "--table", metavar="SCHEMA.TABLE", action="append", default=[], help="a table, or a pattern such as shop.*"
        )
    _add_settings(adding)
    copying.add_argument("--table", metavar="SCHEMA.TABLE", action="append", default=[], help="only this table")
    copying.add_argument("--where", metavar="CONDITION", default="", help="only rows that meet this SQL condition")
    for child in (adding, listing, status, removing, copying):
        add_data(child)
    for child in (adding, listing, status, checking):
        add_json(child)


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--topic", metavar="NAME", default="", help="the topic, or a template with {capture}, {schema} "
                        "and {table} (default: the capture's name for one table, {capture}.{schema}.{table} for "
                        "several)")  # fmt: skip
    parser.add_argument(
        "--partitions", metavar="N", type=checked(positive), default=1, help="of each topic (default: 1)"
    )
    parser.add_argument(
        "--no-snapshot", action="store_true", help="capture only changes from now on, not the existing rows"
    )
    parser.add_argument(
        "--transactions",
        action="store_true",
        help="write the begin and end of every transaction to the topic NAME.transaction",
    )
    parser.add_argument(
        "--outbox", action="store_true", help="the table holds events: relay each row that is inserted as a record"
    )
    parser.add_argument("--key-column", metavar="COLUMN", default="",
                        help="with --outbox: what becomes the record's key (default: it has none)")  # fmt: skip
    parser.add_argument("--value-column", metavar="COLUMN", default="payload",
                        help="with --outbox: what becomes the record's value (default: payload)")  # fmt: skip
    parser.add_argument("--interval", metavar="TIME", type=checked(duration_seconds), default=10.0,
                        help="of metrics: the interval at which they are emitted (default: 10s)")  # fmt: skip
    parser.add_argument(
        "--insecure-public-bind", action="store_true", help="of metrics: listen where other machines can reach it"
    )
    parser.add_argument("--encoding", metavar="NAME", default="utf-8", help="of lines in files (default: utf-8)")
    parser.add_argument("--heartbeat", metavar="TIME", type=checked(duration_seconds), default=10.0,
                        help="how often to write a mark into the database's log (default: 10s)")  # fmt: skip
    parser.add_argument(
        "--max-retained", metavar="SIZE", default="", help="how much WAL the database may keep, as 2GiB"
    )
    parser.add_argument("--at-limit", choices=("drop-slot", "pause-others", "warn"), default="drop-slot",
                        help="what to do when it keeps more (default: drop-slot)")  # fmt: skip


def run_add(arguments: argparse.Namespace) -> int:
    definition = Definition(
        name=arguments.name,
        url=with_secret(arguments.url),
        tables=tuple(arguments.table),
        topic=arguments.topic,
        partitions=arguments.partitions,
        snapshot=not arguments.no_snapshot,
        transactions=arguments.transactions,
        outbox=arguments.outbox,
        key_column=arguments.key_column,
        value_column=arguments.value_column,
        interval_seconds=arguments.interval,
        encoding=arguments.encoding,
        public=arguments.insecure_public_bind,
        heartbeat_seconds=arguments.heartbeat,
        retained_bytes_max=size_bytes(arguments.max_retained) if arguments.max_retained else None,
        at_limit=arguments.at_limit,
    )
    lacking = [finding for finding in _findings(definition.url, definition.tables) if not finding.fine]
    if lacking:
        raise Failure(f"{lacking[0].said}. Run: {lacking[0].statement}" if lacking[0].statement else lacking[0].said)
    made = Definitions(arguments.data).add(definition)
    running = locked(arguments.data / LOCK_FILE)
    if running:
        _wait_for_begin(Definitions(arguments.data), made.name)
    if arguments.json:
        write_json({"name": made.name, "url": made.shown_url, "tables": list(made.tables), "running": running})
    else:
        begins = "begins now" if running else 'begins when a node is started with "headwater start"'
        say(f"capture {made.name} of {made.shown_url} {begins}; see headwater capture status {made.name}")
    return 0


def _wait_for_begin(definitions: Definitions, name: str) -> None:
    """Until its topics are there, so that the next command finds them; or until it says why not, which is passed on."""
    clock, pause = SystemClock(), threading.Event()
    end_ms = clock.elapsed_ms() + BEGIN_MS_MAX
    while clock.elapsed_ms() < end_ms:
        status = definitions.status(name) or {}
        if status.get("state") in BEGUN:
            return
        if status.get("said"):
            note(f"capture {name}: {status['said']}")
            return
        pause.wait(0.1)


def _wait_for_end(definitions: Definitions, name: str) -> None:
    """Waits until the capture is removed, or says why it is not."""
    clock, pause = SystemClock(), threading.Event()
    end_ms = clock.elapsed_ms() + BEGIN_MS_MAX
    while name in definitions.names() and clock.elapsed_ms() < end_ms:
        status = definitions.status(name) or {}
        if status.get("state") == "removing" and status.get("said"):
            note(f"capture {name} is still there: {status['said']}")
            return
        pause.wait(0.1)


def with_secret(url: str) -> str:
    """The node that runs the capture has another environment: what of this one it needs is kept with the definition."""
    check_url(url)
    if kind_of(url) == SQLITE:
        return with_absolute_path(url)
    password = os.environ.get(MARIADB_PASSWORD_VARIABLE if kind_of(url) == MARIADB else PASSWORD_VARIABLE)
    return with_password(url, password) if password else url


def run_list(arguments: argparse.Namespace) -> int:
    definitions = Definitions(arguments.data)
    rows: list[list[Cell]] = []
    for one in definitions.all():
        state = (definitions.status(one.name) or {}).get("state", "not started")
        rows.append([one.name, one.shown_url, ", ".join(one.tables), one.topic_template, str(state)])
    names = ["capture", "database", "tables", "topic", "state"]
    if arguments.json:
        write_json([dict(zip(names, row, strict=True)) for row in rows])
    elif rows:
        write_table(names, rows)
    else:
        say('there are no captures; make one with "headwater capture add"')
    return 0


def run_status(arguments: argparse.Namespace) -> int:
    definitions = Definitions(arguments.data)
    if arguments.name and arguments.name not in definitions.names():
        raise UnknownCapture(arguments.name, definitions.names())
    found = {name: definitions.report(name) for name in ([arguments.name] if arguments.name else definitions.names())}
    running = locked(arguments.data / LOCK_FILE)
    if arguments.json:
        write_json([{"capture": name, "node_running": running, **status} for name, status in found.items()])
        return 0
    if not running:
        note('no node runs on this data directory, so nothing is captured; start one with "headwater start"')
    if not found:
        say('there are no captures; make one with "headwater capture add"')
        return 0
    write_table(
        ["capture", "state", "position", "behind", "kept by database", "changes", "records"],
        [_line(name, status) for name, status in found.items()],
    )
    for name, status in found.items():
        for table in _progress(status):
            say(f"  {table}")
        if status.get("said"):
            say(f"  {name}: {status['said']}")
    return 0


def _line(name: str, status: dict[str, object]) -> list[Cell]:
    counts = status.get("counts")
    known = counts if isinstance(counts, dict) else {}
    return [
        name,
        str(status["state"]),
        str(status.get("position") or "-"),
        _behind(status.get("lag_bytes"), status.get("lag_seconds")),
        _bytes(status.get("retained_bytes")),
        known.get("changes"),
        known.get("records"),
    ]


def _bytes(count: object) -> str:
    return f"{count:,} bytes" if isinstance(count, int) else "-"


def _behind(count: object, seconds: object) -> str:
    """
    >>> _behind(1_500, 2.5), _behind(None, None)
    ('1,500 bytes, 2.5 s', '-')
    """
    return f"{_bytes(count)}, {seconds:.1f} s" if isinstance(seconds, int | float) else _bytes(count)


def _progress(status: dict[str, object]) -> list[str]:
    found = status.get("snapshots")
    return [bar(**table) for table in found if not table["done"]] if isinstance(found, list) else []


def bar(table: str, rows: int, estimate: int, done: bool) -> str:
    """
    >>> bar("public.users", 50, 100, False)
    'public.users  [##########----------]  50 of about 100 rows'
    """
    share = min(1.0, rows / estimate) if estimate else 0.0
    filled = BAR_COLUMNS if done else round(BAR_COLUMNS * share)
    total = f" of about {estimate:,}" if estimate else ""
    return f"{table}  [{'#' * filled}{'-' * (BAR_COLUMNS - filled)}]  {rows:,}{total} rows"


def run_check(arguments: argparse.Namespace) -> int:
    findings = _findings(with_secret(arguments.url), arguments.table)
    if arguments.json:
        write_json([finding._asdict() for finding in findings])
    else:
        for finding in findings:
            if not finding.fine or not finding.note:
                say(f"{'ok     ' if finding.fine else 'missing'}  {finding.said}")
            else:
                say(f"note     {finding.said}")
            if finding.statement and (not finding.fine or finding.note):
                say(f"         {finding.statement}")
    return 0 if all(finding.fine for finding in findings) else 1


def _findings(url: str, tables: "list[str] | tuple[str, ...]") -> "list[Finding]":
    check_url(url)
    if kind_of(url) in (STATSD, FILES):
        return []  # an address is all that senders need, and files may come later
    if kind_of(url) == SQLITE:
        from headwater.capture.sqlite_outbox.requirements import check as check_sqlite
        from headwater.capture.sqlite_outbox.source import path_of

        return check_sqlite(path_of(url), tables)
    if kind_of(url) == MARIADB:
        return _mariadb_findings(url, tables)
    try:
        from headwater.capture.postgresql.database import Database
        from headwater.capture.postgresql.requirements import check
    except ImportError:
        raise Failure('captures of PostgreSQL need its driver: pip install "headwater[postgres]"') from None
    database = Database(url)
    try:
        return check(database, tables)
    finally:
        database.close()


def _mariadb_findings(url: str, tables: "list[str] | tuple[str, ...]") -> "list[Finding]":
    try:
        from headwater.capture.mariadb_binlog.database import Database
        from headwater.capture.mariadb_binlog.requirements import check
        from headwater.capture.mariadb_binlog.source import schema_of
    except ImportError:
        raise Failure('captures of MariaDB need its driver: pip install "headwater[mysql]"') from None
    database = Database(url)
    try:
        return check(database, tables, schema_of(url))
    finally:
        database.close()


def run_remove(arguments: argparse.Namespace) -> int:
    definitions = Definitions(arguments.data)
    try:
        definition = definitions.get(arguments.name)
    except InvalidCapture as error:
        return _remove_unreadable(arguments, definitions, error)
    if locked(arguments.data / LOCK_FILE):
        definitions.remove(definition.name, force=arguments.force)
        say(f"capture {definition.name} is being removed; its topics stay")
        _wait_for_end(definitions, definition.name)
        return 0
    from headwater.capture.appender import LogAppender
    from headwater.capture.supervisor import remove
    from headwater.log.log import Log

    with Log.open(arguments.data) as log:
        try:
            left = remove(replace(definition, forced=arguments.force), definitions, LogAppender(log))
        except CaptureError as error:
            way = f'leave it as it is with "headwater capture remove {definition.name} --force"'
            raise Failure(f"{definition.shown_url} cannot be cleaned up: {error}; {way}") from None
    say(f"capture {definition.name} is removed; its topics stay")
    if left:
        note(left)
    return 0


def _remove_unreadable(arguments: argparse.Namespace, definitions: Definitions, error: InvalidCapture) -> int:
    """Removes a capture that no node runs.

    Its notes are deleted too: the next capture of this name starts from nothing.
    """
    if not arguments.force:
        raise error
    from headwater.capture.appender import LogAppender
    from headwater.capture.notes import Notes
    from headwater.log.log import Log

    with Log.open(arguments.data) as log:  # DataDirectoryLocked says to stop the node first
        Notes(LogAppender(log), arguments.name).forget()
        definitions.delete(arguments.name)
    say(f"capture {arguments.name} is removed; its topics stay")
    note(f"what it made at its database is not known any more, and was left there ({error})")
    return 0


def run_snapshot(arguments: argparse.Namespace) -> int:
    if arguments.where and not arguments.table:
        raise Failure("--where needs a --table to apply to")
    definitions = Definitions(arguments.data)
    definitions.request(arguments.name, {"tables": arguments.table, "where": arguments.where})
    say(f"asked: {', '.join(arguments.table) or 'every table'} of capture {arguments.name} will be copied again")
    return 0
