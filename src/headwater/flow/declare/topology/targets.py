"""Where an output writes, so that two of them never write to one place: each would take the other's batches for its
own. What is distinguished only by other names for a host or a folder is found by the sinks (their marks)."""

from collections.abc import Iterable
from posixpath import normpath

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.app import VIEW, Output
from headwater.flow.declare.sinks import Database, Parquet, Redis

POSTGRES = ("postgresql://", "postgres://")
DEFAULT_SCHEMA = "public"

Target = tuple[str, ...]


def refuse_same_targets(app: str, outputs: Iterable[Output]) -> None:
    taken: dict[Target, Output] = {}
    for output in outputs:
        target = target_of(app, output)
        if target is None:
            continue
        if target in taken:
            raise InvalidDeclaration(
                f"{output} writes to {_spoken(target)}, and so does {taken[target]}",
                "One place has one writer: give one of them another, or union the two streams.",
            )
        taken[target] = output


def target_of(app: str, output: Output) -> Target | None:
    """None: it has a place of its own, or one where nothing is kept."""
    if output.kind == VIEW:
        return _table(output.store, app, output.name) if output.store else None
    match output.sink:
        case Parquet(path):
            return "folder", path if "://" in path and not path.startswith("file://") else _local(path)
        case Database(url, table):
            schema, _, bare = table.rpartition(".") if url.startswith(POSTGRES) else ("", "", table)
            return _table(url, schema or DEFAULT_SCHEMA, bare)
        case Redis(url, prefix):
            return "entries", prefix, url
    return None


def _table(url: str, schema: str, table: str) -> Target:
    # SQLite has no schemas, and does not distinguish capital letters from small ones.
    return ("table", f"{schema}.{table}", url) if url.startswith(POSTGRES) else ("table", table.lower(), url)


def _local(path: str) -> str:
    return normpath(path.removeprefix("file://"))


def _spoken(target: Target) -> str:
    """Without an address, which may hold a password."""
    kind, name, *_ = target
    return f"one {kind}" if "://" in name else f"{kind} {name}{'*' if kind == 'entries' else ''}"
