"""headwater events: show, history, diff, replay."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple

from headwater.cli.arguments import add_action, add_actions, add_data, add_json, checked, moment_ms, number
from headwater.cli.connection import http_url
from headwater.cli.failure import Failure
from headwater.cli.output import Cell, say, write_json, write_table
from headwater.events.aggregate import Aggregate
from headwater.events.codec import to_json
from headwater.events.remote import connect
from headwater.events.store import EventStore
from headwater.events.store import open as open_store
from headwater.log.streams.event import StoredEvent


class ClassInFile(NamedTuple):
    path: Path
    name: str


def class_in_file(text: str) -> ClassInFile:
    """
    >>> class_in_file("seats.py:Seat").name
    'Seat'
    """
    path, colon, name = text.rpartition(":")
    if not colon or not name.isidentifier():
        raise ValueError(f"{text!r} is not FILE.py:CLASS, such as seats.py:Seat")
    return ClassInFile(Path(path), name)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    showing = add_action(actions, "show", "show the state of an aggregate", run_show)
    history = add_action(actions, "history", "show each event of an aggregate, and the state after it", run_history)
    comparing = add_action(actions, "diff", "show what changed between two versions of an aggregate", run_diff)
    replaying = add_action(actions, "replay", "fold all events again, and compare with snapshots", run_replay)
    for child in (showing, history, comparing, replaying):
        child.add_argument(
            "aggregate", metavar="FILE.py:CLASS", type=checked(class_in_file), help="the class, and the file it is in"
        )
    for child in (showing, history, comparing):
        child.add_argument("key", metavar="KEY", help="which aggregate")
    replaying.add_argument("keys", metavar="KEY", nargs="*", help="which aggregates; without, all of the class")
    moment = showing.add_mutually_exclusive_group()
    moment.add_argument("--version", metavar="N", type=checked(number), help="as it was at this version")
    moment.add_argument("--time", metavar="TIME", type=checked(moment_ms), help="as it was at this time")
    comparing.add_argument("old", metavar="OLD", type=checked(number), help="a version; 0 is before all events")
    comparing.add_argument("new", metavar="NEW", type=checked(number), nargs="?", help="another; without, the newest")
    for child in (showing, history, comparing, replaying):
        child.add_argument("--topic", metavar="TOPIC", default="events", help="where the events are (default: events)")
        add_data(child)
        add_json(child)


def run_show(arguments: argparse.Namespace) -> int:
    aggregate = loaded(arguments.aggregate)
    with store_of(arguments) as store:
        state = store.load(aggregate, arguments.key, version=arguments.version, time_ms=arguments.time)
    attributes = aggregate._definition.state(state)
    if arguments.json:
        write_json({"key": state.id, "version": state.version, "state": attributes})
    else:
        say(f"{aggregate.__name__} {state.id}, version {state.version}")
        write_table(("attribute", "value"), [[name, shown(value)] for name, value in attributes.items()])
    return 0


def run_history(arguments: argparse.Namespace) -> int:
    aggregate = loaded(arguments.aggregate)
    with store_of(arguments) as store:
        steps = list(store.history(aggregate, arguments.key))
    if arguments.json:
        for step in steps:
            write_json({**event_json(step.event), "state": step.state})
        return 0
    rows: list[list[Cell]] = [
        [step.event.version, moment(step.event.time_ms), step.event.type, step.event.origin.user or None,
         ", ".join(f"{name}={shown(value)}" for name, value in step.state.items())]
        for step in steps
    ]  # fmt: skip
    write_table(("version", "time", "event", "by", "state after it"), rows)
    return 0


def run_diff(arguments: argparse.Namespace) -> int:
    aggregate = loaded(arguments.aggregate)
    with store_of(arguments) as store:
        old = store.load(aggregate, arguments.key, version=arguments.old)
        new = store.load(aggregate, arguments.key, version=arguments.new)
    before, after = aggregate._definition.state(old), aggregate._definition.state(new)
    changed = {name: [before.get(name), value] for name, value in after.items() if before.get(name) != value}
    if arguments.json:
        write_json({"key": old.id, "old": old.version, "new": new.version, "changed": changed})
        return 0
    rows: list[list[Cell]] = [[name, shown(was), shown(now)] for name, (was, now) in changed.items()]
    write_table(("attribute", f"version {old.version}", f"version {new.version}"), rows)
    return 0


def run_replay(arguments: argparse.Namespace) -> int:
    """Exit code 1 if a snapshot says what the events do not."""
    aggregate = loaded(arguments.aggregate)
    differing, count = [], 0
    with store_of(arguments) as store:
        for key in arguments.keys or store.keys(aggregate):
            quick, replayed = store.load(aggregate, key), store.load(aggregate, key, version=2**62)
            states = [aggregate._definition.state(one) for one in (quick, replayed)]
            count += 1
            if states[0] != states[1]:
                differing.append({"key": key, "snapshot": states[0], "events": states[1]})
    if arguments.json:
        write_json({"replayed": count, "differing": differing})
    else:
        for one in differing:
            say(f"{aggregate.__name__} {one['key']}: its snapshot gives {one['snapshot']}, its events {one['events']}")
        say(f"{count:,} replayed, {len(differing):,} differ from their snapshot")
    return 1 if differing else 0


def loaded(said: ClassInFile) -> type[Aggregate]:
    """Failure if the file has no such aggregate. The file is run, as an app is."""
    name = f"headwater_events_of_{said.path.stem}"
    spec = spec_from_file_location(name, said.path)
    if spec is None or spec.loader is None or not said.path.is_file():
        raise Failure(f"{said.path} is no file of Python")
    module = sys.modules[name] = module_from_spec(spec)  # annotations are looked up by the module's name
    spec.loader.exec_module(module)
    found = getattr(module, said.name, None)
    if not isinstance(found, type) or not issubclass(found, Aggregate):
        raise Failure(f"{said.path} has no aggregate {said.name}")
    return found


@contextmanager
def store_of(arguments: argparse.Namespace) -> Iterator[EventStore]:
    """On the node that owns the data directory, or on the directory itself where none runs."""
    if url := http_url(arguments.data):
        with connect(url, topic=arguments.topic) as store:
            yield store
        return
    if not arguments.data.is_dir():
        raise Failure(f"there is no data directory {arguments.data}; say --data")
    with open_store(arguments.data, topic=arguments.topic) as store:
        yield store


def event_json(event: StoredEvent) -> dict[str, Any]:
    return {
        "version": event.version, "type": event.type, "time_ms": event.time_ms, "id": event.id,
        "data": event.data.decode(errors="replace"), "user": event.origin.user, "request": event.request,
    }  # fmt: skip


def moment(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def shown(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value).decode()
