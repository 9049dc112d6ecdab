"""headwater sql: ask views and topics, from a terminal or a script."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from http.client import HTTPException
from typing import TYPE_CHECKING

from headwater.cli.arguments import add_data, add_json, checked, duration_seconds, positive
from headwater.cli.connection import http_url, reach
from headwater.cli.failure import Failure, sentence_of
from headwater.cli.output import note, say
from headwater.cli.shell.answers import FORMATS
from headwater.cli.shell.creating import Creating
from headwater.cli.shell.session import LIMIT_MAX, POSITIONS, Ended, Session, Settings, read_script, timeout_seconds
from headwater.cli.shell.topics import TopicQueries
from headwater.client import RemoteNode, connect
from headwater.errors import HeadwaterError
from headwater.secret_urls import without_secrets
from headwater.settings import LOCAL_TOKEN_FILE

if TYPE_CHECKING:
    from headwater.cli.shell.terminal import Prompt

TOKEN_VARIABLE = "HEADWATER_TOKEN"
INSTALL = 'Install it with: pip install "headwater[query]"'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-c", "--command", metavar="SQL", action="append", default=[], help="run this and end; may be repeated"
    )
    parser.add_argument(
        "-f", "--file", metavar="FILE", action="append", default=[],
        help="run the statements of a file and end; - is standard input; may be repeated",
    )  # fmt: skip
    parser.add_argument("--format", choices=FORMATS, default="table", help="how answers are written (default: table)")
    parser.add_argument(
        "--limit", metavar="N", type=checked(positive), default=1000, help="rows of an answer at most (default: 1000)"
    )
    parser.add_argument(
        "--timeout", metavar="TIME", default="10s", help="how long a statement may take, up to 60s (default: 10s)"
    )
    parser.add_argument(
        "--position", choices=POSITIONS, default="auto",
        help="read several views at one position where there can be one (auto), at one or not at all (one), or each "
        "at its own (own) (default: auto)",
    )  # fmt: skip
    parser.add_argument(
        "--at-least", metavar="TOPIC/PARTITION@OFFSET", default="", help="wait until the views include this record"
    )
    parser.add_argument(
        "--quiet-for", metavar="TIME", type=checked(duration_seconds),
        help="end a SUBSCRIBE when nothing has changed for a time",
    )  # fmt: skip
    parser.add_argument("--app", metavar="NAME", default="", help="the app whose file a CREATE goes into")
    parser.add_argument("--yes", action="store_true", help="write what a CREATE says into the file of the app")
    parser.add_argument(
        "--http", metavar="URL",
        help=f"ask the node at this address instead of the one that owns --data, with the token in ${TOKEN_VARIABLE} "
        "if it needs one",
    )  # fmt: skip
    add_data(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments)
    scripts = [*arguments.command, *(sys.stdin.read() if one == "-" else read_script(one) for one in arguments.file)]
    if not scripts and not sys.stdin.isatty():
        scripts = [sys.stdin.read()]
    with reached(arguments) as node:
        topics = TopicQueries(None if arguments.http else arguments.data.absolute(), node, note)
        creating = partial(Creating, topics.data, arguments.app, topics)
        with closing(topics):
            if scripts:
                create = creating(flushed, lambda question: bool(arguments.yes)).create
                return run_scripts(Session(node, settings, flushed, note, topics, create), scripts)
            return run_shell(node, settings, topics, creating(say, confirmed).create)


def settings_of(arguments: argparse.Namespace) -> Settings:
    if arguments.limit > LIMIT_MAX:
        raise Failure(f"--limit {arguments.limit} is too many; say up to {LIMIT_MAX:,}")
    return Settings(
        "json" if arguments.json else arguments.format, arguments.limit, timeout_seconds(arguments.timeout),
        arguments.position, arguments.at_least, arguments.quiet_for,
    )  # fmt: skip


@contextmanager
def reached(arguments: argparse.Namespace) -> Iterator[RemoteNode]:
    """The node that was named, or that of the data directory; one is started where none runs."""
    if arguments.http is not None:
        if not arguments.http.startswith(("http://", "https://")):
            raise Failure(f"{without_secrets(arguments.http)!r} is not a URL, such as http://127.0.0.1:8080")
        yield connect(arguments.http, token=os.environ.get(TOKEN_VARIABLE, ""))
        return
    arguments.kafka = None
    with reach(arguments, http=True):
        url = http_url(arguments.data)
        if not url:
            raise Failure(f'the node of {arguments.data} has no HTTP port. Start it without "--http off"')
        token = (arguments.data / LOCAL_TOKEN_FILE).read_text(encoding="utf-8").strip()
        yield connect(url, token=token)


def flushed(text: str) -> None:
    """A program that reads a pipe has an answer when it is there."""
    print(text, flush=True)


def run_scripts(session: Session, scripts: list[str]) -> int:
    try:
        for text in scripts:
            session.run_text(text)
    except Ended:
        pass
    except (HTTPException, json.JSONDecodeError) as error:
        raise Failure(unreachable(error)) from None
    except ConnectionError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise Failure(unreachable(error)) from None
    return 0


def confirmed(question: str) -> bool:
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")


def run_shell(node: RemoteNode, settings: Settings, topics: TopicQueries, create: Callable[[str], None]) -> int:
    prompt = prompted(node)
    from headwater.cli.shell.terminal import page

    session = Session(node, settings, page, say, topics, create)
    say('Ask with SELECT … FROM VIEW or TOPIC; "\\d" lists views, "\\?" helps, Ctrl-D ends.')
    for statement in prompt.statements():
        try:
            session.run(statement)
        except Ended:
            break
        except KeyboardInterrupt:
            say("stopped")
        except (Failure, HeadwaterError) as error:
            say(f"error: {sentence_of(error)}")
        except (OSError, HTTPException, json.JSONDecodeError) as error:
            say(f"error: {sentence_of(Failure(unreachable(error)))}")
    return 0


def prompted(node: RemoteNode) -> "Prompt":
    try:
        from headwater.cli.shell.terminal import Prompt
    except ModuleNotFoundError as error:
        raise Failure(f"the shell needs {error.name}, which is not installed. {INSTALL}") from None
    return Prompt(node.views, node.topics)


def unreachable(error: Exception) -> str:
    if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError | UnicodeDecodeError):
        return sentence_of(error)
    said = sentence_of(error).rstrip(".")
    return f"the node does not answer as one: {said}. Is it running, and is this its HTTP port?"
