"""An index of the words in some columns of a view, kept by tantivy in a folder.

A document for each row: `_id` (a digest of the key, by which it is replaced), `_key` (the key as JSON, by which its row
is found in the view), and the words of the columns. One more document is the mark: job, batch, what is indexed, and the
generation of the view. Documents and mark are committed together, so that the index is always at the end of a batch.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from headwater.errors import InvalidQuery, JobRefused, StoreUnavailable

FOLDER = "search"
MARK = "mark"
OWN_FIELDS = ("_id", "_key", "_mark")
WORDS_MAX = 500
WRITER_BYTES, WRITER_THREADS = 50_000_000, 1

PANIC = "PanicException"
"""Of pyo3, whose module cannot be imported."""


@dataclass(frozen=True)
class IndexMark:
    job: str
    batch: int
    columns: tuple[str, ...]
    generation: int = 0
    """Of the view it was filled from."""


class Hit(NamedTuple):
    key: dict[str, Any]
    score: float


def index_folder(data: Path, app: str, view: str) -> Path:
    return data / FOLDER / app / view


class FullTextIndex:
    """One process may write at a time; any number may search, and see what was committed last. Thread-safe."""

    def __init__(self, folder: Path, columns: Sequence[str] = ()) -> None:
        """Without `columns` it is only searched, in those that it was made with."""
        self._folder, self._columns = folder, tuple(columns)
        self._lock = Lock()
        self._index: Any = None
        self._opened_columns: tuple[str, ...] = ()
        self._writer: Any = None

    def exists(self) -> bool:
        return (self._folder / "meta.json").is_file()

    def mark(self) -> IndexMark | None:
        if not self.exists():
            return None
        with self._lock:
            said = self._read_mark()
        return None if said is None else IndexMark(**{**said, "columns": tuple(said["columns"])})

    def write(
        self, mark: IndexMark, present: Iterable[tuple[str, Mapping[str, str]]], deleted: Iterable[str] = (), *,
        reset: bool = False,
    ) -> None:  # fmt: skip
        """Writes rows by the JSON of their key, and removes deleted keys; `reset` removes all others.

        All of it, or nothing.
        """
        tantivy = _library()
        with self._lock:
            writer = self._opened_writer()
            try:
                if reset:
                    writer.delete_all_documents()
                for key in deleted:
                    writer.delete_documents_by_term("_id", _id(key))
                for key, texts in present:
                    writer.delete_documents_by_term("_id", _id(key))
                    writer.add_document(tantivy.Document(_id=[_id(key)], _key=[key], **_some(texts)))
                writer.delete_documents_by_term("_id", MARK)
                writer.add_document(tantivy.Document(_id=[MARK], _mark=[json.dumps(asdict(mark))]))
                writer.commit()
            except BaseException:
                writer.rollback()
                raise
            self._index.reload()

    def search(self, words: str, limit: int) -> list[Hit]:
        """The keys of rows that have the words, best first. Quotes, AND, OR, a minus and column:word mean what they
        mean elsewhere; what cannot be understood is left out."""
        if len(words) > WORDS_MAX:  # the library's parser ends the process when words are nested too deeply
            raise InvalidQuery(f"a search has {len(words):,} letters, and may have {WORDS_MAX}", "Use fewer words.")
        with self._lock:
            said = self._read_mark_as_it_is() or {}
            index, columns = self._opened(), list(said.get("columns", self._columns))
            with self._without_panics():
                searcher = index.searcher()
                try:
                    query, _ = index.parse_query_lenient(words, columns)
                    found = searcher.search(query, limit + 1).hits  # the mark may be among them
                except ValueError as error:
                    if "corrupt" in str(error).lower():
                        raise self._damaged(error) from None
                    raise InvalidQuery(
                        f"{words!r} cannot be searched for: {error}", "Use words, or column:word."
                    ) from error
            with self._translated():
                documents = [(score, searcher.doc(address)) for score, address in found]
        # Numbers as text: a float would have lost digits of a decimal.
        with self._translated():
            keys = [(json.loads(one["_key"][0], parse_float=str), score) for score, one in documents if one["_key"]]
        return [Hit(key, score) for key, score in keys[:limit]]

    def close(self) -> None:
        with self._lock:
            if self._writer is not None:
                # What is merged in the background must not outlive who holds the lock of the folder.
                self._writer.wait_merging_threads()
            self._writer = self._index = None

    def _opened(self) -> Any:
        if self._index is None:
            if not self.exists():
                raise InvalidQuery("nothing is indexed there", "Declare what to search with app.view(search=[...]).")
            with self._translated():
                made = json.loads((self._folder / "meta.json").read_bytes())["schema"]
                self._opened_columns = tuple(field["name"] for field in made if field["name"] not in OWN_FIELDS)
                self._index = _library().Index.open(str(self._folder))
        return self._index

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """StoreUnavailable for all that the library and its files may say."""
        try:
            with self._without_panics():
                yield
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._damaged(error) from None

    @contextmanager
    def _without_panics(self) -> Iterator[None]:
        """The library believes its files: a flipped bit is a panic, which no one who catches errors would catch."""
        try:
            yield
        except BaseException as error:
            if type(error).__name__ != PANIC:
                raise
            self._index = None
            raise self._damaged(error) from None

    def _damaged(self, error: BaseException) -> StoreUnavailable:
        why = f"it is damaged ({error}); remove the folder, and the next run of the app makes it from the view"
        return StoreUnavailable(str(self._folder), why)

    def _read_mark_as_it_is(self) -> dict[str, Any] | None:
        """An index that was rebuilt with other columns is another one: fields of the old one would be taken for
        those at their positions."""
        said = self._read_mark()
        if said is not None and self._writer is None and tuple(said["columns"]) != self._opened_columns:
            self._index = None
            said = self._read_mark()
            if said is not None and tuple(said["columns"]) != self._opened_columns:
                raise self._damaged(ValueError("its mark is of other columns"))
        return said

    def _opened_writer(self) -> Any:
        if self._writer is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            with self._without_panics():
                self._index = _library().Index(_schema(self._columns), path=str(self._folder), reuse=self.exists())
            try:
                self._writer = self._index.writer(WRITER_BYTES, WRITER_THREADS)
            except ValueError as error:
                if "LockBusy" not in str(error):
                    raise
                raise JobRefused(
                    f"the index in {self._folder} is being written by another process", "Stop that one first."
                ) from error
        return self._writer

    def _read_mark(self) -> dict[str, Any] | None:
        tantivy = _library()
        index = self._opened()
        with self._translated():
            index.reload()
            searcher = index.searcher()
            found = searcher.search(tantivy.Query.term_query(index.schema, "_id", MARK), 1).hits
            if not found:
                return None
            said: dict[str, Any] = json.loads(searcher.doc(found[0][1])["_mark"][0])
            return said


def _schema(columns: Sequence[str]) -> Any:
    builder = _library().SchemaBuilder()
    builder.add_text_field("_id", stored=False, tokenizer_name="raw")
    for name in ("_key", "_mark"):
        builder.add_text_field(name, stored=True, tokenizer_name="raw")
    for name in columns:
        builder.add_text_field(name, stored=False)
    return builder.build()


def _id(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _some(texts: Mapping[str, str | None]) -> dict[str, list[str]]:
    return {name: [text] for name, text in texts.items() if text is not None}


def _library() -> Any:
    try:
        import tantivy
    except ModuleNotFoundError as error:
        raise JobRefused("an index for searching needs a library that is not installed (tantivy)",
                         'Install it with: pip install "headwater[search]"') from error  # fmt: skip
    return tantivy
