"""The command headwater: a table of verbs, and what happens when one goes wrong.

A failure is one sentence on standard error and exit code 1; a command that was typed wrongly is exit code 2; Ctrl-C is
130, quietly. The others are named in failure.py. A traceback is a bug.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple, NoReturn

import headwater
from headwater.cli.failure import FAILED, INTERRUPTED, JVM_ENDED, MISUSED, Failure, sentence_of
from headwater.cli.log_lines import guard_last_resort
from headwater.errors import FlowPackageMissing, HeadwaterError, JvmEnded

TRACEBACK_VARIABLE = "HEADWATER_TRACEBACK"


class Verb(NamedTuple):
    name: str
    summary: str
    module: str


# Every verb there is. Its module has add_arguments(parser), which names the function to run.
VERBS = (
    Verb("start", "run a node: the log, its Kafka port and its HTTP port", "headwater.cli.start"),
    Verb("topic", "create, list, describe, alter and delete topics", "headwater.cli.topic"),
    Verb("produce", "append lines from standard input to a topic", "headwater.cli.produce"),
    Verb("consume", "print the records of a topic", "headwater.cli.consume"),
    Verb("schema", "list, show, register, check and delete schemas", "headwater.cli.schema"),
    Verb("group", "list, describe and reset consumer groups", "headwater.cli.group"),
    Verb("queue", "list, describe, peek, retry, purge, replay and move queues", "headwater.cli.queue"),
    Verb("capture", "follow other systems' changes into topics", "headwater.cli.capture"),
    Verb("hook", "accept signed webhooks into topics", "headwater.cli.hook"),
    Verb("user", "say who may log in, with which password", "headwater.cli.user"),
    Verb("acl", "say what users may do", "headwater.cli.acl"),
    Verb("cert", "make certificates to try encryption with", "headwater.cli.cert"),
    Verb("token", "say who may use the HTTP port from other machines", "headwater.cli.token"),
    Verb("run", "keep an app's views and topics up to date", "headwater.cli.run"),
    Verb("flow", "list, pause, resume and restart flows", "headwater.cli.flow"),
    Verb("plan", "show what an app reads, does, keeps and writes", "headwater.cli.plan"),
    Verb("view", "list, get, watch, rename and drop views", "headwater.cli.view"),
    Verb("sql", "ask views with SQL, at a prompt or from a script", "headwater.cli.sql"),
    Verb("alert", "list alerts and what they hold", "headwater.cli.alert"),
    Verb("verify", "recompute views from the log and compare", "headwater.cli.verify"),
    Verb("events", "show aggregates, their history and what changed", "headwater.cli.events"),
    Verb("late", "show late rows, and replay them", "headwater.cli.late"),
    Verb("top", "topics, groups and flows, live", "headwater.cli.top"),
    Verb("state", "show, check and reshard what flows keep", "headwater.cli.state"),
    Verb("log", "check the files of a data directory", "headwater.cli.log"),
    Verb("demo", "a small shop, end to end, with its dashboard", "headwater.cli.demo"),
)


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, where to read more in a second, and nothing else."""

    def error(self, message: str) -> NoReturn:
        self.exit(MISUSED, f'{self.prog}: {message}. See "{self.prog} --help".\n')


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """The parser of all verbs; arguments are added for the verb `only`, or for every one if it is None.

    Loading a verb's module loads the libraries it needs, so that a node does not carry what only a consumer uses.
    """
    parser = Parser(prog="headwater", description="A durable log that every Kafka client can talk to.")
    parser.add_argument("--version", action="version", version=f"headwater {headwater.__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)
    for verb in VERBS:
        child = verbs.add_parser(
            verb.name, help=verb.summary, description=f"{verb.summary[0].upper()}{verb.summary[1:]}."
        )
        if only is None or only == verb.name:
            import_module(verb.module).add_arguments(child)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        # Being asked to end is no reason to end in the middle: files are closed, offsets committed.
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
        guard_last_resort()
    try:
        parsed = build_parser(only=_verb_in(given)).parse_args(given)
        outcome: int = parsed.run(parsed)
        sys.stdout.flush()
    except (Failure, HeadwaterError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            return _reader_went_away()
        for one in (error, *getattr(error, "also", ())):
            print(f"headwater: {sentence_of(one)}", file=sys.stderr)
        return JVM_ENDED if isinstance(error, JvmEnded) else FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        if missing := FlowPackageMissing.of(error):
            print(f"headwater: {sentence_of(missing)}", file=sys.stderr)
            return FAILED
        print(f"headwater: this is a bug in headwater: {type(error).__name__}: {sentence_of(error)} "
              f"Please report it with what {TRACEBACK_VARIABLE}=1 shows.", file=sys.stderr)  # fmt: skip
        return FAILED
    return outcome


def _verb_in(given: Sequence[str]) -> str:
    return next((word for word in given if not word.startswith("-")), "")


def _reader_went_away() -> int:
    """`headwater consume t | head` ends as any other program in a pipe does, and as quietly."""
    # What Python would still flush at exit goes nowhere, or it would complain about the pipe a second time.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + signal.SIGPIPE
