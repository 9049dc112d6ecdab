"""Write docs/reference from the code: commands, settings, topic settings, errors, versions of the Kafka protocol.

python scripts/reference.py --write     write the pages
python scripts/reference.py             succeed if they are what the code says
"""

import argparse
import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any

from headwater import errors, settings
from headwater.cli.failure import FAILED, INTERRUPTED, JVM_ENDED, MISUSED, TERMINATED, WARNED
from headwater.cli.main import build_parser
from headwater.log.queues.settings import DEFINITIONS as QUEUE_DEFINITIONS
from headwater.log.topic_settings import DEFINITIONS
from headwater.wire.protocol.error_codes import CODES
from headwater.wire.routes import ROUTES

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference"
NOTICE = '<!-- Written by scripts/reference.py ("make reference"); change the code, not this page. -->\n'


def table(columns: list[str], rows: list[list[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *[[escaped(cell) for cell in row] for row in rows]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")


EXIT_CODES = {
    "0": "success",
    str(FAILED): "failure, or a finding: damage, a difference, a failed job",
    str(MISUSED): "wrong usage",
    str(WARNED): "`run --once` finished with a warning; `verify` found no difference, but a view that cannot be proved",
    str(JVM_ENDED): "Spark's JVM ended: the same command resumes where it was",
    f"{INTERRUPTED}, {TERMINATED}": "ended by Ctrl-C, or by SIGTERM",
}


def commands_page() -> str:
    parser = build_parser()
    parts = [
        "# Commands\n",
        "Errors are written to standard error, in sentences that name the way out. Exit codes:\n",
        *(f"- {code}: {meaning}" for code, meaning in EXIT_CODES.items()),
        "",
    ]
    for name, verb in sorted(actions_of(parser).items()):
        children = actions_of(verb)
        if not children:
            parts.append(command_section(f"headwater {name}", verb))
        for child, action in children.items():
            parts.append(command_section(f"headwater {name} {child}", action))
    return "\n".join(parts)


def actions_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def command_section(name: str, parser: argparse.ArgumentParser) -> str:
    options = [action for action in parser._actions if not isinstance(action, argparse._HelpAction)]
    places = [str(action.metavar) for action in options if not action.option_strings]
    title = " ".join([name, *places])
    rows = [[f"`{spelled(action)}`", (action.help or "").replace("%%", "%")] for action in options]
    return f"## `{title}`\n\n{parser.description}\n\n{table(['argument', 'meaning'], rows)}\n"


def spelled(action: argparse.Action) -> str:
    if not action.option_strings:
        return str(action.metavar)
    if action.nargs == 0:
        return ", ".join(action.option_strings)
    value = action.metavar or "|".join(str(choice) for choice in action.choices or [action.dest.upper()])
    return f"{', '.join(action.option_strings)} {value}"


def settings_page() -> str:
    parts = [
        "# Settings of a node\n",
        "Frozen dataclasses of `headwater.settings`, handed to `hw.Node` and `hw.Log.open`.\n",
    ]
    for kind in (settings.LogSettings, settings.WireSettings):
        said = docstrings_of_fields(kind)
        rows = [[f"`{field.name}`", f"`{default_of(field)}`", said.get(field.name, "")] for field in fields(kind)]
        parts.append(
            f"## `{kind.__name__}`\n\n{inspect.getdoc(kind)}\n\n{table(['setting', 'default', 'meaning'], rows)}\n"
        )
    return "\n".join(parts)


def docstrings_of_fields(kind: type) -> dict[str, str]:
    """The text that follows a field, which Python itself forgets."""
    definition = class_of(kind)
    found = {}
    for field, after in zip(definition.body, definition.body[1:], strict=False):
        match field, after:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = " ".join(text.split())
    return found


def default_of(field: Any) -> str:
    value = field.default
    if isinstance(value, timedelta):
        return spelled_duration(value)
    if type(value) is int and value >= 1024 and value % 1024 == 0 and "bytes" in field.name:
        return f"{value // 1024**2} MiB" if value % 1024**2 == 0 else f"{value // 1024} KiB"
    return repr(value)


def spelled_duration(value: timedelta) -> str:
    """
    >>> spelled_duration(timedelta(minutes=10))
    '10 minutes'
    """
    for unit, name in ((timedelta(days=1), "day"), (timedelta(hours=1), "hour"), (timedelta(minutes=1), "minute"),
                       (timedelta(seconds=1), "second")):  # fmt: skip
        if value >= unit and value % unit == timedelta(0):
            count = value // unit
            return f"{count} {name}" + ("" if count == 1 else "s")
    return f"{value // timedelta(milliseconds=1)} milliseconds"


def topic_settings_page() -> str:
    rows = [[f"`{d.name}`", d.kind, f"`{d.default}`", d.documentation] for d in DEFINITIONS.values()]
    return (
        "# Topic settings\n\nSet with `headwater topic create --config NAME=VALUE`, `headwater topic alter`, any Kafka "
        "admin client, or\n`log.create_topic(configs=...)`. Names and meanings are Kafka's; those that begin with "
        "`headwater.` are ours.\n\n" + table(["setting", "type", "default", "meaning"], rows) + "\n"
    )


def queue_settings_page() -> str:
    rows = [[f"`{d.name}`", d.kind, f"`{d.default}`", d.documentation] for d in QUEUE_DEFINITIONS.values()]
    return (
        "# Settings of queues and share groups\n\nSet with any Kafka admin client for resources of the type `GROUP`, "
        "or `log.queue(settings=...)`. Those that begin with\n`headwater.` are ours; stock clients need not know them. "
        "A queue that `log.queue` makes has `share.auto.offset.reset=earliest`,\n`headwater.queue.headers=true` and a "
        "dead-letter topic.\n\n" + table(["setting", "type", "default", "meaning"], rows) + "\n"
    )


def errors_page() -> str:
    drawing = (errors.__doc__ or "").split("\n\n")[2]
    rows = [
        [f"`{kind.__name__}`", meaning_of(kind), code_of(kind)] for kind in sorted(leaves(), key=lambda k: k.__name__)
    ]
    return (
        "# Errors\n\nEvery error that headwater raises on purpose. The branches answer the caller's only question: "
        f"may I try again?\n\n```\n{inspect.cleandoc(drawing)}\n```\n\n"
        + table(["error", "meaning", "Kafka error code"], rows)
        + "\n"
    )


def leaves(kind: type[errors.HeadwaterError] = errors.HeadwaterError) -> Iterator[type[errors.HeadwaterError]]:
    children = [child for child in kind.__subclasses__() if child.__module__ == errors.__name__]
    if not children:
        yield kind
    for child in children:
        yield from leaves(child)


def class_of(kind: type) -> ast.ClassDef:
    """The code of a class; that of an error stands in one of the files of their folder."""
    for file in sorted(Path(errors.__file__).parent.glob("*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
                return node
    [definition] = ast.parse(inspect.getsource(kind)).body
    assert isinstance(definition, ast.ClassDef)
    return definition


def meaning_of(kind: type) -> str:
    """Its docstring, or else the words of its message."""
    if kind.__doc__:
        return " ".join(kind.__doc__.split())
    for node in ast.walk(class_of(kind)):
        match node:
            case ast.Call(func=ast.Attribute(attr="__init__"), args=[ast.JoinedStr(values=pieces)]):
                # What is filled in when it happens is left open here.
                said = "".join(str(piece.value) if isinstance(piece, ast.Constant) else "…" for piece in pieces)
                return f"{said[0].upper()}{said[1:]}."
            case ast.Call(func=ast.Attribute(attr="__init__"), args=[ast.Constant(value=str(said))]):
                return f"{said[0].upper()}{said[1:]}."
    return ""


def code_of(kind: type[errors.HeadwaterError]) -> str:
    found = next((CODES[parent] for parent in kind.__mro__ if parent in CODES), None)
    return f"`{found.name.upper()}` ({found.value})" if found is not None else ""


def versions_page() -> str:
    rows = [[str(key), name, f"{versions.start} to {versions.stop - 1}"] for key, name, versions in sorted(spoken())]
    return (
        "# Versions of the Kafka protocol\n\nWhat the Kafka port answers. Clients ask for this table themselves, and "
        "choose.\n\n" + table(["key", "API", "versions"], rows) + "\n"
    )


def spoken() -> Iterator[tuple[int, str, range]]:
    for route in ROUTES:
        yield route.api_key, route.name.title().replace("_", ""), route.versions


PAGES: dict[str, Callable[[], str]] = {
    "cli.md": commands_page,
    "settings.md": settings_page,
    "topic-settings.md": topic_settings_page,
    "queue-settings.md": queue_settings_page,
    "errors.md": errors_page,
    "wire-versions.md": versions_page,
}


def outdated() -> list[str]:
    """Names of pages that are not what the code says."""
    written = {name: (FOLDER / name).read_text(encoding="utf-8") if (FOLDER / name).exists() else "" for name in PAGES}
    return [name for name, page in PAGES.items() if written[name] != NOTICE + page()]


def main() -> int:
    parser = argparse.ArgumentParser(description="Check docs/reference against the code.")
    parser.add_argument("--write", action="store_true", help="write the pages instead")
    if parser.parse_args().write:
        FOLDER.mkdir(parents=True, exist_ok=True)
        for name, page in PAGES.items():
            (FOLDER / name).write_text(NOTICE + page(), encoding="utf-8")
        return 0
    for name in outdated():
        print(f'docs/reference/{name} is not what the code says; write it again with "make reference"', file=sys.stderr)
    return 1 if outdated() else 0


if __name__ == "__main__":
    sys.exit(main())
