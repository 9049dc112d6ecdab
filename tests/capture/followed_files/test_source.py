"""Files followed like tail -F: each line once, through rotation, crashes and odd bytes."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.capture.appender import LogAppender
from headwater.capture.definition import Definition
from headwater.capture.followed_files import lines as lines_module
from headwater.capture.followed_files.lines import lines, whole
from headwater.capture.notes import Notes
from headwater.errors import InvalidCapture
from tests.capture.followed_files.kit import Captured, Program

Capture = Callable[..., Captured]
POINTS = ["before append", "after append", "after sync", "after notes"]


@pytest.fixture
def capture(tmp_path: Path) -> Iterator[Capture]:
    made: list[Captured] = []

    def make(*arguments: Any, **more: Any) -> Captured:
        made.append(Captured(tmp_path, *arguments, **more))
        return made[-1].start()

    yield make
    for one in made:
        one.close()


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    (tmp_path / "logs").mkdir()
    made = Program(tmp_path / "logs")
    yield made
    made.close()


def test_lines_are_emitted_when_they_are_whole(program: Program, capture: Capture) -> None:
    captured = capture().caught_up()
    program.write("one\r\ntw")
    assert captured.caught_up().lines() == ["one"]
    program.write("o\n\nthree")
    assert captured.caught_up().lines() == ["one", "two", ""]
    first, second, third = captured.records()
    assert dict(second.headers)["offset"] == b"5"
    assert first.key == third.key == os.fsencode(program.path)


def test_a_renamed_file_is_read_to_its_end_and_then_the_new_one(program: Program, capture: Capture) -> None:
    captured = capture().caught_up()
    program.write("a\n").rename()
    program.write("written after the renaming\nno end")
    captured.caught_up()
    program.reopen()
    program.write("b\n")
    captured.caught_up().linger()
    assert captured.lines() == ["a", "written after the renaming", "b", "no end"]


def test_what_was_written_before_a_file_was_cut_is_read_from_its_copy(program: Program, capture: Capture) -> None:
    captured = capture()
    program.write("a\n")
    captured.caught_up()
    program.write("b\n").copy_and_cut()
    program.write("c\n")
    assert sorted(captured.caught_up().lines()) == ["a", "b", "c"]


@pytest.mark.parametrize("how", ["rename", "copy_and_cut"])
def test_rotation_while_no_capture_runs_loses_nothing(program: Program, capture: Capture, how: str) -> None:
    captured = capture()
    program.write("a\n")
    captured.caught_up().runner.abandon()
    program.write("b\n")
    getattr(program, how)()
    program.reopen()
    program.write("c\n")
    captured.start().caught_up()
    assert sorted(captured.lines()) == ["a", "b", "c"]


@pytest.mark.parametrize("how", ["rename", "copy_and_cut"])
def test_rotated_files_that_the_pattern_names_too_are_not_read_again(
    program: Program, capture: Capture, how: str
) -> None:
    captured = capture("app.log*")
    for text in ("a\n", "b\n", "c\n"):
        program.write(text)
        captured.caught_up()
        getattr(program, how)()
        program.reopen()
        captured.caught_up().linger().linger()
    assert captured.crash().caught_up().lines() == ["a", "b", "c"]


def test_a_folder_full_of_rotated_files_is_not_listed_for_each_pair_of_them(
    program: Program, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found under load: hundreds of files, each compared with each by listing their folder, took minutes."""
    captured = capture("app.log*").caught_up()
    for number in range(40):
        program.write(f"{number}\n")
        captured.caught_up()
        program.rename()
        program.reopen()
    listings, real = list[Any](), os.scandir

    def counted(path: Any) -> Any:
        listings.append(path)
        return real(path)

    monkeypatch.setattr("headwater.capture.followed_files.followed.os.scandir", counted)
    for number in range(40):
        (program.path.parent / f"app.log.other{number}").write_text(f"other {number}\n")
    assert len(captured.caught_up().lines()) == 80
    assert len(listings) < 200


def test_lines_that_were_about_to_be_emitted_are_found_in_a_copy(program: Program, capture: Capture) -> None:
    captured = capture()
    program.write("a\nb\n")
    captured.step()
    assert captured.lines() == []
    captured.runner.abandon()
    program.write("c\n").copy_and_cut()
    program.write("d\n")
    assert sorted(captured.start().caught_up().lines()) == ["a", "b", "c", "d"]


def test_a_capture_that_was_removed_and_created_again_continues_in_its_topic(
    program: Program, capture: Capture
) -> None:
    captured = capture()
    program.write("a\n")
    captured.caught_up()
    captured.runner.abandon()
    Notes(LogAppender(captured.log), "app").forget()
    captured.clock.advance(1)
    assert captured.start().caught_up().lines() == ["a", "a"]


def test_a_file_that_is_deleted_with_unread_lines_is_reported(program: Program, capture: Capture) -> None:
    captured = capture()
    program.write("a\n")
    captured.caught_up().runner.abandon()
    program.path.unlink()
    captured.start().caught_up()
    assert "lines may be lost" in captured.source.status().warning


def test_lines_in_another_encoding_are_emitted_with_what_they_were(program: Program, capture: Capture) -> None:
    program.path.write_bytes(b"fine\ncaf\xe9\n")
    captured = capture().caught_up()
    assert captured.lines() == ["fine", "caf\ufffd"]
    assert dict(captured.records()[1].headers)["undecodable"] == b"Y2Fm6Q=="
    captured.caught_up()
    assert "1 lines were not in utf-8" in captured.source.status().warning


def test_an_encoding_is_turned_into_utf_8(program: Program, capture: Capture) -> None:
    program.path.write_bytes(b"caf\xe9\n")
    assert capture(encoding="latin-1").caught_up().lines() == ["café"]


def test_a_pattern_finds_files_that_come_later(program: Program, capture: Capture, tmp_path: Path) -> None:
    captured = capture("**/*.txt").caught_up()
    (tmp_path / "logs" / "deep").mkdir()
    (tmp_path / "logs" / "deep" / "x.txt").write_text("x\n")
    os.mkfifo(tmp_path / "logs" / "pipe.txt")
    assert captured.caught_up().lines() == ["x"]


def test_without_a_copy_only_what_comes_from_now_on_is_emitted(
    program: Program, capture: Capture, tmp_path: Path
) -> None:
    program.write("old\nhalf")
    captured = capture("*.log", from_start=False).caught_up()
    program.write(" new\n")
    captured.crash()
    (tmp_path / "logs" / "later.log").write_text("later\n")
    assert captured.caught_up().lines() == ["half new", "later"]


def test_a_line_without_end_is_cut_into_pieces(
    program: Program, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines_module, "LINE_BYTES_MAX", 4)
    captured = capture()
    program.write("abcdefghij")
    captured.caught_up()
    program.write("k\nl\n")
    assert captured.caught_up().lines() == ["abcd", "efgh", "ijk", "l"]
    assert ["cut" in dict(record.headers) for record in captured.records()] == [True, True, False, False]


@given(st.binary(max_size=60).map(lambda data: data.replace(b"\x00", b"\n").replace(b"\r", b"")))
def test_lines_put_together_are_the_bytes(data: bytes) -> None:
    taken = data[: whole(data)]
    assert b"".join(line.content + b"\n" for line in lines(taken)) == taken
    assert [line.content for line in lines(data)] == data.split(b"\n")[: len(lines(data))]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(["{}\n", "{}\n{}\n{}\n", "{}", "\n"])),
        st.tuples(st.sampled_from(["rename", "reopen", "crash", "linger"]), st.just("")),
        st.tuples(st.sampled_from(["step", "copy_and_cut"]), st.sampled_from(["", *POINTS])),
    ),
    max_size=25,
)


@settings(max_examples=120, deadline=None)
@given(steps, st.sampled_from(["app.log", "app.log*"]))
def test_whatever_is_done_each_line_is_emitted_once(taken: list[tuple[str, str]], pattern: str) -> None:
    """A file that is renamed before the capture has seen it, or cut before anything of it was read, is not known.

    Numbers
    are written, so that each is unique."""
    with TemporaryDirectory() as folder:
        captured = Captured(Path(folder), pattern).start()
        program, count, renamed = Program(captured.logs), 0, False
        for what, how in taken:
            if what == "write":
                numbers = [f"n{count + index}" for index in range(how.count("{}"))]
                count += len(numbers)
                program.write(how.format(*numbers))
            elif what == "rename" and not renamed:
                captured.seen()
                renamed = True
                program.rename()
            elif what == "reopen" and renamed:
                program.write("\n")  # a program ends its line before it lets go
                program.reopen()
                renamed = False
            elif what == "copy_and_cut" and not renamed:
                program.write(f"n{count}\n")
                captured.caught_up()
                program.write(f"n{count + 1}\n").copy_and_cut()
                count += 2
                captured.step(how)
                captured.caught_up()
            elif what == "crash":
                captured.crash()
            elif what == "linger":
                captured.caught_up().linger()
            elif what == "step":
                captured.step(how)
        program.write("\n")
        captured.caught_up()
        emitted = sorted(part for line in captured.lines() for part in line.split("n") if part)
        assert emitted == sorted(str(number) for number in range(count))
        captured.close()
        program.close()


def test_paths_and_encodings_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvalidCapture, match="no absolute path"):
        Definition(name="a", url="file://logs/a.log")
    with pytest.raises(InvalidCapture, match="no encoding"):
        Definition(name="a", url="file:///logs/a.log", encoding="utf-16")
