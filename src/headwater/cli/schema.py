"""headwater schema: list, show, register, check, delete, level."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from headwater.cli.arguments import Actions, Run, add_action, add_actions, add_connection, add_json
from headwater.cli.connection import reach
from headwater.cli.failure import Failure
from headwater.cli.output import Cell, say, write_json, write_table
from headwater.flow.registry.client import RegistryClient, address_of
from headwater.secret_urls import without_secrets

KINDS = ("avro", "json", "protobuf")
SUFFIXES = {".avsc": "avro", ".json": "json", ".proto": "protobuf"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    _action(actions, "list", "list subjects, with their newest version", run_list)
    show = _action(actions, "show", "print a schema of a subject", run_show)
    show.add_argument("subject", metavar="SUBJECT", help="the subject, usually TOPIC-value or TOPIC-key")
    show.add_argument("--version", metavar="N", default="latest", help="which version (default: the newest)")
    for name, summary, run in (
        ("register", "register a new version of a subject", run_register),
        ("check", "check whether a schema is compatible with a subject", run_check),
    ):
        action = _action(actions, name, summary, run)
        action.add_argument("subject", metavar="SUBJECT", help="the subject, usually TOPIC-value or TOPIC-key")
        action.add_argument("file", metavar="FILE", help="the schema; - is standard input")
        action.add_argument("--kind", choices=KINDS, help="the schema type (default: by the name of the file, or avro)")
        action.add_argument(
            "--reference",
            metavar="NAME=SUBJECT:VERSION",
            action="append",
            default=[],
            help="a registered schema that this one refers to; may be repeated",
        )

    delete = _action(actions, "delete", "delete a subject or a version, softly or permanently", run_delete)
    delete.add_argument("subject", metavar="SUBJECT", help="the subject, usually TOPIC-value or TOPIC-key")
    delete.add_argument("--version", metavar="N", help="only this version (default: all)")
    delete.add_argument(
        "--permanent", action="store_true", help="delete permanently: records that carry its id cannot be read again"
    )
    level = _action(actions, "level", "show or set the compatibility level", run_level)
    level.add_argument(
        "subject",
        metavar="SUBJECT",
        nargs="?",
        help="the subject (default: all without a level of their own)",
    )
    level.add_argument("--set", metavar="LEVEL", help="NONE, BACKWARD, FORWARD or FULL, or one of them _TRANSITIVE")


def _action(actions: Actions, name: str, summary: str, run: Run) -> argparse.ArgumentParser:
    action = add_action(actions, name, summary, run)
    add_connection(action)
    action.add_argument(
        "--registry", metavar="URL", help="ask the registry at this address instead of the one of the node"
    )
    add_json(action)
    return action


def run_list(arguments: argparse.Namespace) -> int:
    with registry(arguments) as client:
        subjects = client.ask("GET", "/subjects")
        found = [client.ask("GET", f"{_path(subject)}/versions/latest") for subject in subjects]
    if arguments.json:
        write_json(found)
    elif not found:
        say("there are no schemas")
    else:
        rows: list[list[Cell]] = [
            [one["subject"], one["version"], one["id"], one.get("schemaType", "AVRO")] for one in found
        ]
        write_table(["subject", "version", "id", "kind"], rows)
    return 0


def run_show(arguments: argparse.Namespace) -> int:
    with registry(arguments) as client:
        found = client.ask("GET", f"{_path(arguments.subject)}/versions/{quote(arguments.version, safe='')}")
    if arguments.json:
        write_json(found)
    else:
        say(_readable(found))
    return 0


def run_register(arguments: argparse.Namespace) -> int:
    body = schema_in(arguments)
    with registry(arguments, create=True) as client:
        client.ask("POST", f"{_path(arguments.subject)}/versions", body)
        found = client.ask("POST", _path(arguments.subject), body)
    if arguments.json:
        write_json({"subject": found["subject"], "version": found["version"], "id": found["id"]})
    else:
        say(f'version {found["version"]} of subject "{found["subject"]}" has id {found["id"]}')
    return 0


def run_check(arguments: argparse.Namespace) -> int:
    """Exit code 1 if it may not follow."""
    body = schema_in(arguments)
    with registry(arguments) as client:
        path = f"/compatibility{_path(arguments.subject)}/versions?verbose=true"
        said = client.ask("POST", path, body)
    if arguments.json:
        write_json(said)
    elif said["is_compatible"]:
        say(f'it may be the next version of subject "{arguments.subject}"')
    else:
        say(f'it may not follow what subject "{arguments.subject}" has:')
        for reason in said.get("messages") or ():
            say(f"  {reason}")
    return 0 if said["is_compatible"] else 1


def run_delete(arguments: argparse.Namespace) -> int:
    version = "" if arguments.version is None else f"/versions/{quote(arguments.version, safe='')}"
    query = "?permanent=true" if arguments.permanent else ""
    with registry(arguments) as client:
        said = client.ask("DELETE", f"{_path(arguments.subject)}{version}{query}")
    numbers = said if isinstance(said, list) else [said]
    if arguments.json:
        write_json({"subject": arguments.subject, "versions": numbers, "permanent": arguments.permanent})
    else:
        done = "forgot" if arguments.permanent else "deleted"
        listed = ", ".join(map(str, numbers))
        say(f'{done} {"version" if len(numbers) == 1 else "versions"} {listed} of subject "{arguments.subject}"')
    return 0


def run_level(arguments: argparse.Namespace) -> int:
    path = "/config" if arguments.subject is None else f"/config/{quote(arguments.subject, safe='')}"
    with registry(arguments, create=arguments.set is not None) as client:
        if arguments.set is not None:
            client.ask("PUT", path, {"compatibility": arguments.set})
        level = client.ask("GET", f"{path}?defaultToGlobal=true")["compatibilityLevel"]
    if arguments.json:
        write_json({"subject": arguments.subject, "level": level})
    else:
        say(f"{arguments.subject or 'subjects without a level of their own'}: {level}")
    return 0


@contextmanager
def registry(arguments: argparse.Namespace, *, create: bool = False) -> Iterator[RegistryClient]:
    """The registry that was named, or that of the node; one is started where none runs."""
    if arguments.registry is not None:
        if not arguments.registry.startswith(("http://", "https://")):
            shown = without_secrets(arguments.registry)
            raise Failure(f"{shown!r} is not a URL, such as http://127.0.0.1:8080")
        yield RegistryClient(arguments.registry, patience_seconds=0)
        return
    if arguments.kafka is not None:
        raise Failure("a Kafka address says nothing about schemas. Say --registry URL, or --data DIR")
    with reach(arguments, create=create, http=True):
        address_of(str(arguments.data))  # says at once where there is none
        yield RegistryClient(str(arguments.data), patience_seconds=0)


def schema_in(arguments: argparse.Namespace) -> Mapping[str, Any]:
    """The body of a request that carries the schema of a file."""
    kind = arguments.kind or SUFFIXES.get(Path(arguments.file).suffix, "avro")
    text = sys.stdin.read() if arguments.file == "-" else Path(arguments.file).read_text(encoding="utf-8")
    references = [_reference(said) for said in arguments.reference]
    return {"schema": text, "schemaType": kind.upper(), "references": references}


def _reference(said: str) -> dict[str, Any]:
    name, equals, rest = said.partition("=")
    subject, colon, version = rest.rpartition(":")
    if not equals or not colon or not name or not subject or not version.isdecimal():
        raise Failure(f"{said!r} is not NAME=SUBJECT:VERSION, such as shop.Money=money-value:1")
    return {"name": name, "subject": subject, "version": int(version)}


def _path(subject: str) -> str:
    return f"/subjects/{quote(subject, safe='')}"


def _readable(found: Mapping[str, Any]) -> str:
    """JSON with a line for each part; other texts as they are."""
    text = str(found["schema"])
    if found.get("schemaType") == "PROTOBUF":
        return text.rstrip("\n")
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text
