"""Words of a view's rows in an index."""

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.errors import InvalidQuery, JobRefused, StoreUnavailable
from headwater.flow.sinks.search import SearchSink
from headwater.flow.sinks.sink import Sink
from headwater.views.check import problems_of_index
from headwater.views.full_text import FullTextIndex, IndexMark
from headwater.views.mark import Mark
from headwater.views.store import open_store
from tests.contracts.sink import JOB, Faults, SinkContract, mark, opened

SCHEMA = pa.schema([("number", pa.int64()), ("text", pa.string())])


class StoppingIndex(FullTextIndex):
    """Counts reads, each row, and the commit as steps."""

    faults: Faults

    def mark(self) -> IndexMark | None:
        self.faults.before()
        found = super().mark()
        self.faults.behind()
        return found

    def write(
        self, mark: IndexMark, present: Iterable[tuple[str, Mapping[str, str]]], deleted: Iterable[str] = (), *,
        reset: bool = False,
    ) -> None:  # fmt: skip
        def counted() -> Iterator[tuple[str, Mapping[str, str]]]:
            for one in present:
                self.faults.before()
                yield one
                self.faults.behind()

        super().write(mark, counted(), deleted, reset=reset)
        self.faults.before()
        self.faults.behind()


class SearchPlace:
    schema = SCHEMA
    key: Sequence[str] = ("number",)

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opened: list[Sink] = []

    def close(self) -> None:
        for sink in self._opened:
            sink.close()
        self._opened.clear()

    def open(self, faults: Faults | None = None) -> Sink:
        self.close()  # a process that ends lets go of the folder
        index = FullTextIndex(self.folder, ["text"])
        if faults is not None:
            index = StoppingIndex(self.folder, ["text"])
            index.faults = faults
        sink = SearchSink(self.folder, "numbers", ["text"], index=index)
        if faults is not None:
            sink._shape = sink_shape()
        self._opened.append(sink)
        return sink

    def batch(self, numbers: Iterable[int], operation: str = "c") -> pa.Table:
        listed = list(numbers)
        columns = {"number": listed, "text": [f"row n{one}" for one in listed], "_op": [operation] * len(listed)}
        return pa.table(columns, schema=SCHEMA.append(pa.field("_op", pa.string())))

    def numbers(self) -> list[int]:
        return found(self.folder, "row", limit=60_000)


def sink_shape() -> Any:
    from headwater.views.shape import shape_of

    return shape_of("numbers.search", SCHEMA, ("number",))


def found(folder: Path, words: str, limit: int = 100) -> list[int]:
    index = FullTextIndex(folder)
    if not index.exists():
        return []
    return sorted(hit.key["number"] for hit in index.search(words, limit))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[SearchPlace]:
    place = SearchPlace(tmp_path / "index")
    yield place
    place.close()


class TestSearchSink(SinkContract):
    pass


def test_words_are_found_and_go_with_their_row(place: SearchPlace) -> None:
    sink = opened(place)
    sink.write(mark(0), place.batch([1, 2, 3]))
    assert found(place.folder, "n2") == [2]
    sink.write(mark(1), place.batch([2], operation="d"))
    assert found(place.folder, "n2") == []
    changed = place.batch([3]).set_column(1, "text", pa.array(["something else"]))
    sink.write(mark(2), changed)
    assert found(place.folder, "n3") == []
    assert found(place.folder, "ELSE") == [3]


@pytest.mark.parametrize(
    "words", ['"', "text:", "(", "AND", "a:b:c", "*", "-", "+", "[1 TO", "~", "^", "\\", "_mark:x"]
)
def test_whatever_is_typed_is_searched_for_as_well_as_it_can_be(place: SearchPlace, words: str) -> None:
    opened(place).write(mark(0), place.batch([1, 2]))
    assert set(found(place.folder, words)) <= {1, 2}


@pytest.mark.parametrize("words", ["text:*", "_key:*", "(" * 501])
def test_words_that_cannot_be_searched_for_are_the_searchers_fault(place: SearchPlace, words: str) -> None:
    opened(place).write(mark(0), place.batch([1]))
    with pytest.raises(InvalidQuery):
        found(place.folder, words)


@pytest.mark.parametrize("columns", [("b", "a"), ("b",), ("a", "b", "c"), ("c",)])
def test_who_searches_sees_an_index_that_was_made_anew_with_other_columns(
    tmp_path: Path, columns: tuple[str, ...]
) -> None:
    def write(names: tuple[str, ...]) -> None:
        shutil.rmtree(tmp_path / "index", ignore_errors=True)
        index = FullTextIndex(tmp_path / "index", names)
        index.write(IndexMark(JOB, 0, names), [('{"number": 1}', {name: f"in_{name}" for name in names})])
        index.close()

    write(("a", "b"))
    searching = FullTextIndex(tmp_path / "index")
    assert searching.search("a:in_a", 5)
    write(columns)
    for name in columns:
        assert [hit.key for hit in searching.search(f"{name}:in_{name}", 5)] == [{"number": 1}]
    assert not searching.search("a:in_b", 5)


def test_two_writers_of_one_index_are_told_so(place: SearchPlace) -> None:
    sink = opened(place)
    sink.write(mark(0), place.batch([1]))
    second = SearchSink(place.folder, "numbers", ["text"])
    second.prepare(SCHEMA, ["number"])
    with pytest.raises(JobRefused, match="is being written by another process"):
        second.write(mark(1), place.batch([2]))
    second.close()


def test_a_column_that_has_no_text_is_refused(place: SearchPlace) -> None:
    with pytest.raises(JobRefused, match='no column "title" of text'):
        SearchSink(place.folder, "numbers", ["title"]).prepare(SCHEMA, ["number"])
    with pytest.raises(JobRefused, match="of text"):
        SearchSink(place.folder, "numbers", ["number"]).prepare(SCHEMA, ["number"])


def test_an_index_that_is_not_there_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidQuery, match="search="):
        FullTextIndex(tmp_path / "none").search("x", 1)


class TestMadeFromTheView:
    @pytest.fixture
    def view(self, tmp_path: Path) -> Any:
        store = open_store(tmp_path, "shop")
        store.prepare("numbers", SCHEMA, ["number"])
        store.write("numbers", Mark(JOB, 7, {}), pa.table({"number": [1, 2], "text": ["old n1", "old n2"]}))
        return store

    def sink(self, tmp_path: Path, columns: Sequence[str] = ("text",)) -> SearchSink:
        sink = SearchSink(tmp_path / "index", "numbers", columns, open_store(tmp_path, "shop"))
        sink.prepare(SCHEMA, ["number"])
        return sink

    def test_a_new_index_has_the_rows_that_are_there_and_goes_on_from_their_batch(
        self, tmp_path: Path, view: Any, place: SearchPlace
    ) -> None:
        sink = self.sink(tmp_path)
        assert found(tmp_path / "index", "old") == [1, 2]
        assert not sink.write(mark(7), place.batch([9])), "the view had it"
        assert sink.write(mark(8), place.batch([3]))
        assert found(tmp_path / "index", "row OR old") == [1, 2, 3]
        sink.close()

    def test_a_view_that_was_built_anew_is_indexed_anew(self, tmp_path: Path, view: Any) -> None:
        self.sink(tmp_path).close()
        view.begin_shadow("numbers", SCHEMA, ["number"], job="rebuild")
        view.write("numbers", Mark("rebuild", 0, {}), pa.table({"number": [5], "text": ["old n5"]}), shadow=True)
        view.swap("numbers", Mark(JOB, 8, {}))
        self.sink(tmp_path).close()
        assert found(tmp_path / "index", "old") == [5]

    def test_an_index_that_was_not_kept_for_some_batches_is_made_anew(
        self, tmp_path: Path, view: Any, place: SearchPlace
    ) -> None:
        self.sink(tmp_path).close()
        view.write("numbers", Mark(JOB, 8, {}), pa.table({"number": [3], "text": ["old n3"]}))
        sink = self.sink(tmp_path)
        assert found(tmp_path / "index", "old") == [1, 2, 3]
        assert sink.committed(JOB) == 8
        sink.close()

    def test_an_index_of_a_view_that_is_gone_is_not_that_of_the_next_one(
        self, tmp_path: Path, view: Any, place: SearchPlace
    ) -> None:
        self.sink(tmp_path).close()
        view.drop("numbers")
        view.prepare("numbers", SCHEMA, ["number"])
        sink = self.sink(tmp_path)
        assert sink.write(mark(0, job="shop/main/2"), place.batch([4]))
        assert found(tmp_path / "index", "old OR row") == [4]
        sink.close()


@pytest.mark.parametrize("suffix", [".fast", ".fieldnorm", ".idx", ".pos", ".store", ".term"])
def test_an_index_with_flipped_bits_is_searched_or_refused_and_never_a_panic(tmp_path: Path, suffix: str) -> None:
    whole = FullTextIndex(tmp_path / "whole", ("text",))
    whole.write(IndexMark("job", 1, ("text",)), [(f'{{"number":{number}}}', {"text": "lamp"}) for number in range(9)])
    whole.close()
    (file,) = (tmp_path / "whole").glob(f"*{suffix}")
    content, refusals = file.read_bytes(), []
    for place in range(0, len(content), max(1, len(content) // 20)):
        copy = tmp_path / str(place)  # the library maps its files into memory: they must not change under it
        shutil.copytree(tmp_path / "whole", copy)
        (copy / file.name).write_bytes(content[:place] + bytes([content[place] ^ 0x04]) + content[place + 1 :])
        assert [one for one in problems_of_index(copy) if file.name in one] != [], place
        try:
            FullTextIndex(copy).search("lamp", 10)
        except StoreUnavailable as error:
            refusals.append(str(error))
    assert [one for one in refusals if "is damaged" not in one] == []
