"""Which Java is found, and what is said where there is none that will do."""

from pathlib import Path

import pytest

from headwater.errors import FlowError
from headwater.flow.java import find_java


def a_java(home: Path, *, release: str | None, says: str = "") -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)
    if release is not None:
        (home / "release").write_text(release)
    return home


@pytest.mark.parametrize(
    ("release", "says"),
    [
        ('GRAALVM_VERSION="11.0"\nJAVA_VERSION="21.0.1"\n', "is not asked"),
        ('IMPLEMENTOR="Somebody"\n', 'openjdk version "17.0.15" 2025-04-15'),
        (None, 'openjdk version "17.0.15" 2025-04-15'),
    ],
)
def test_a_java_is_taken_by_what_it_says_about_itself(
    release: str | None, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = a_java(tmp_path / "java", release=release, says=says)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java() == home.resolve()


def test_an_old_java_is_refused_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "java", release='JAVA_VERSION="1.8.0_292"\n')))
    with pytest.raises(FlowError, match=r"is Java 8\.? .*Install Java 17"):
        find_java()


def test_no_java_is_said_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(FlowError, match=r"there is no Java in JAVA_HOME .*Install Java 17"):
        find_java()
