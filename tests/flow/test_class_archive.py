"""Archives of classes, made and used by the Java of this machine."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.flow import class_archive
from headwater.flow.class_archive import ClassArchive, find_archive
from headwater.flow.java import find_java

CLASSES = "java/lang/Object id: 0\njava/lang/String id: 1\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> ClassArchive:
    """An archive of what a JVM loads that does nothing: to make one takes seconds."""
    archive = ClassArchive(tmp_path_factory.mktemp("cache"), "key")
    (option,) = archive.options()
    java = find_java()
    subprocess.run([java / "bin" / "java", option, "-version"], capture_output=True, check=True)
    assert archive.classes.is_file()
    archive.make(archive.classes, java, "")
    return archive


@pytest.fixture
def archive(made: ClassArchive, tmp_path: Path) -> ClassArchive:
    """A copy that may be spoiled."""
    shutil.copytree(made.folder, tmp_path / "cache")
    return ClassArchive(tmp_path / "cache", made.key)


def records(archive: ClassArchive) -> bool:
    return archive.options() == [f"-XX:DumpLoadedClassList={archive.classes}"]


def test_the_first_start_notes_its_classes_and_later_ones_use_the_archive(archive: ClassArchive) -> None:
    options = archive.options()
    assert f"-XX:SharedArchiveFile={archive.archive}" in options
    # -Xshare:on: a JVM that cannot use it does not start.
    command = [str(find_java() / "bin" / "java"), "-Xshare:on", *options, "-version"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert sorted(path.name for path in archive.folder.iterdir()) == ["key.jsa", "key.json", "lock"]


@pytest.mark.parametrize("spoil", ["flip", "cut", "remove", "note", "empty"])
def test_an_archive_that_is_not_as_it_was_written_is_not_used_and_made_again(archive: ClassArchive, spoil: str) -> None:
    if spoil == "note":
        archive.note.write_text("[")
    elif spoil == "remove":
        archive.archive.unlink()
    else:
        archive.archive.chmod(0o600)
        content = bytearray(archive.archive.read_bytes())
        content[len(content) // 2] ^= 1
        whole = {"flip": bytes(content), "cut": bytes(content[:-1]), "empty": b""}[spoil]
        archive.archive.write_bytes(whole)
    assert records(archive)


def test_what_java_cannot_make_is_not_tried_again(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path, "key")
    archive.classes.write_text(CLASSES)
    archive.make(archive.classes, tmp_path / "no java", "")
    assert archive.options() == []
    assert not archive.classes.exists()


def test_one_process_makes_an_archive_and_the_others_leave_it_to_it(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path, "key")
    archive.classes.write_text(CLASSES)
    with archive._alone() as alone:
        assert alone
        archive.make(archive.classes, tmp_path / "no java", "")
    assert not archive.note.exists()
    assert not archive.classes.exists()


def test_only_the_archives_used_last_are_kept_and_what_killed_processes_left_goes(tmp_path: Path) -> None:
    for age in range(class_archive.KEPT + 2):
        (tmp_path / f"old{age}.jsa").touch()
        (tmp_path / f"old{age}.json").touch()
        os.utime(tmp_path / f"old{age}.json", (1000 - age, 1000 - age))
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    for process in (ended.pid, os.getppid()):
        (tmp_path / f"other.{process}.list").touch()
    archive = ClassArchive(tmp_path, "key")
    archive.classes.write_text(CLASSES)
    archive.make(archive.classes, tmp_path / "no java", "")
    kept = {f"old{age}.{kind}" for age in range(class_archive.KEPT - 1) for kind in ("jsa", "json")}
    there = {path.name for path in tmp_path.iterdir()}
    assert there == {*kept, "key.json", f"other.{os.getppid()}.list", "lock"}


def test_other_jars_another_java_and_another_class_path_are_other_archives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    jars, java, other = tmp_path / "jars", tmp_path / "java", tmp_path / "other"
    for folder in (jars, java, other):
        folder.mkdir()
    (jars / "spark.jar").write_bytes(b"1")
    (java / "release").write_text('JAVA_VERSION="17.0.1"\n')
    (other / "release").write_text('JAVA_VERSION="17.0.2"\n')
    first = find_archive(java, jars, "")
    assert first == find_archive(java, jars, "")
    assert len({first, find_archive(other, jars, ""), find_archive(java, jars, "more.jar")}) == 3
    (jars / "spark.jar").write_bytes(b"22")
    assert find_archive(java, jars, "") != first


def test_a_folder_that_others_may_write_to_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert find_archive(tmp_path, tmp_path, "") is not None
    (tmp_path / "headwater" / "classes").chmod(0o777)
    assert find_archive(tmp_path, tmp_path, "") is None
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    assert find_archive(tmp_path, tmp_path, "") is None
