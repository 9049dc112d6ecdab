"""The protocol of a database that keeps views.

A store holds the views of one app. Every view has a mark: the batch of the job that it reflects, and the offsets. Rows,
deletes and mark change in one transaction, so that a batch is in as a whole or not at all, and is recognised when it
comes again.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import pyarrow as pa

from headwater.clock import Clock, SystemClock
from headwater.errors import JobRefused
from headwater.secret_urls import WAY_OUT, ambiguity, without_secrets
from headwater.views.mark import Epoch, Mark, StoredMark
from headwater.views.own_postgres import kept_in_postgres, mark_app
from headwater.views.postgres_staging import PostgresStaging, StagedTable
from headwater.views.query import Query
from headwater.views.shape import Shape

POSTGRES_SCHEMES = ("postgresql://", "postgres://")
SQLITE_SCHEME = "sqlite:///"

Row = dict[str, object]


class ChangedRow(NamedTuple):
    """`row` is None when the key was deleted."""

    key: Row
    row: Row | None


class Snapshot(Protocol):
    """A view at one moment: all answers belong together."""

    shape: Shape
    mark: StoredMark

    def select(self, query: Query) -> list[Row]: ...

    def scan(self, names: Sequence[str], query: Query) -> Iterator[pa.RecordBatch]:
        """Some columns of the rows that fit, batch by batch; read it to the end before the moment is over."""

    def count(self, query: Query) -> int: ...

    def changes_after(self, change: int) -> Iterator[ChangedRow]:
        """Returns the changes since, in the order of the writes; each key as it is now.

        Needs change >= mark.changes_from.
        """

    def numbered_changes_after(self, change: int, until: int | None = None) -> list[tuple[int, ChangedRow]]:
        """The same, with the number of the write; up to a write, and with it."""

    def last_write_within(self, change: int, rows_max: int) -> int:
        """Returns the last write after `change` up to which at most `rows_max` rows changed, or else the next write.

        Deleted keys are not counted.
        """

    def changed_since(self, change: int) -> int:
        """How many those are."""

    def matching_since(self, change: int, query: Query, until: int | None = None) -> list[Row]:
        """The rows among them that fit, up to a write; of a query, only its conditions count."""


class ViewStore(Protocol):
    """Writing blocks no reader. StoreUnavailable leaves nothing half done: the same call may be made again."""

    where: str

    def prepare(self, view: str, schema: pa.Schema, key: Sequence[str]) -> None:
        """Make the view, or add the columns it lacks. JobRefused where only a rebuild helps."""

    def mark(self, view: str, *, shadow: bool = False) -> StoredMark | None:
        """None: there is no such view."""

    def write(
        self, view: str, mark: Mark, rows: pa.Table, *, shadow: bool = False, staged: Sequence[StagedTable] = ()
    ) -> bool:
        """Rows, those that are staged, and mark: all or nothing. False: the view holds this batch already. JobRefused:
        another job's view. JobTakenOver: a newer driver of this job has fenced the store."""

    def in_one_transaction(self) -> AbstractContextManager[None]:
        """What is written within is there for readers all at once, or not at all; nothing is read within."""

    def fence(self, job: str, epoch: Epoch) -> None:
        """From now on what drivers of the job with an older epoch write is refused. JobTakenOver if this one is older
        than another."""

    def adopt(self, view: str, job: str) -> None:
        """From now on `job` writes this view, beginning with any batch."""

    def begin_shadow(self, view: str, schema: pa.Schema, key: Sequence[str], *, job: str) -> StoredMark:
        """A second, hidden table to rebuild the view in. One that the same job began is continued."""

    def swap(self, view: str, mark: Mark, *, keep: bool | None = False) -> None:
        """The shadow becomes the view, in one step for all readers. Once done, doing it again does nothing. With `keep`
        what was the view stays, hidden, until the next swap, if it holds the same batch; None leaves what there is."""

    def replaced(self, view: str) -> StoredMark | None:
        """The mark of what the last swap has kept; None if it has kept nothing."""

    def take_back(self, view: str, job: str) -> None:
        """What the last swap has kept is the shadow now, which `job` writes. Once done, doing it again does nothing."""

    def hand_shadow_over(self, view: str, mark: Mark) -> None:
        """The shadow is written by the job of the view from now on, and holds this batch; `swap` comes with a later
        one. Doing it again does nothing."""

    def drop_shadow(self, view: str) -> None: ...

    def drop(self, view: str) -> None:
        """Remove a view and all that is known of it; nothing happens if there is none."""

    def rename(self, view: str, new: str) -> None:
        """Renames a view with its rows and its mark, in one step for all readers. UnknownView if there
        is none; JobRefused if there is one of the new name, or if the view is being rebuilt."""

    def views(self) -> list[str]: ...

    def snapshot(self, view: str) -> AbstractContextManager[Snapshot]: ...

    def snapshots(self, views: Sequence[str]) -> AbstractContextManager[Sequence[Snapshot]]:
        """Several views at the same moment: what was written in one transaction is in all of them, or in none."""

    def close(self) -> None: ...


@runtime_checkable
class StagingStore(Protocol):
    """A store for which other processes stage rows."""

    def staging(self, view: str, mark: Mark, *, shadow: bool = False) -> PostgresStaging | None:
        """How rows of a batch are staged that is about to be written; None if the view holds it."""


def open_store(where: str | Path, app: str, *, read_only: bool = False, clock: Clock | None = None) -> ViewStore:
    """The store of an app's views: a data directory, `sqlite:///file`, or the URL of a PostgreSQL database.

    In a data directory it is the file `views/<app>.sqlite`, or the PostgreSQL of the directory (own_postgres.py); in
    PostgreSQL the schema named after the app.
    """
    clock = clock or SystemClock()
    text = str(where)
    if text.startswith(POSTGRES_SCHEMES):
        if why := ambiguity(text):
            raise JobRefused(f"the URL of a database for views {why}", WAY_OUT)
        return _postgres_store(text, app, read_only=read_only, clock=clock)
    if "://" in text and not text.startswith(SQLITE_SCHEME):
        raise JobRefused(
            f"views cannot be kept at {without_secrets(text)}", "Use postgresql://HOST/NAME or sqlite:///FILE."
        )
    if "://" not in text and kept_in_postgres(where, check_app(app)):
        return _own_store(Path(where), app, read_only=read_only, clock=clock)
    from headwater.views.sqlite import SqliteStore

    file = Path(text.removeprefix(SQLITE_SCHEME)) if text.startswith(SQLITE_SCHEME) else sqlite_file(where, app)
    return SqliteStore(file, read_only=read_only, clock=clock)


def _own_store(data: Path, app: str, *, read_only: bool, clock: Clock) -> ViewStore:
    if not read_only:
        mark_app(data, app)
    with _driver():
        from headwater.views.postgres import NodePostgresStore
    return NodePostgresStore(data, app, read_only=read_only, clock=clock)


def _postgres_store(url: str, schema: str, *, read_only: bool, clock: Clock) -> ViewStore:
    with _driver():
        from headwater.views.postgres import PostgresStore
    return PostgresStore(url, schema, read_only=read_only, clock=clock)


@contextmanager
def _driver() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise JobRefused(
            f"views in PostgreSQL need a driver that is not installed ({error.name})",
            'Install it with: pip install "headwater[postgres]"',
        ) from error


def sqlite_file(data: str | Path, app: str) -> Path:
    return Path(data) / "views" / f"{check_app(app)}.sqlite"


def check_app(app: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}", app):
        raise JobRefused(f"{app[:80]!r} cannot name an app", "Use letters, digits, dots, underscores and hyphens.")
    return app
