"""Everything in the repository speaks of the project alone, and of no machine."""

import re
import subprocess
from pathlib import Path

from tests.rules.source import ROOT

# These words may stand only in this file and its patterns.
OWN = Path(__file__)

TELLTALES = {
    "the host of a package registry or mirror": re.compile(
        r"pypi\.org|pythonhosted\.org|test\.pypi|artifactory|jfrog|--(extra-)?index-url|--find-links|--trusted-host",
        re.I,
    ),
    "a path of somebody's machine": re.compile(r"(?<![\w.~-])/(root|home|Users|work|opt)/[\w.-]+"),
    "an address in a private network": re.compile(r"\b(10\.\d+|192\.168|172\.(1[6-9]|2\d|3[01]))\.\d+\.\d+\b"),
    "a key or token": re.compile(r"BEGIN [A-Z ]*PRIVATE KEY|AKIA[0-9A-Z]{16}|gh[pousr]_[0-9A-Za-z]{36}"),
}


def texts() -> list[Path]:
    """Every file that is or may become part of the repository."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    files = [ROOT / name for name in done.stdout.decode().split("\0") if name]
    return [file for file in files if file.is_file() and file != OWN]


def lines_of(file: Path) -> list[str]:
    content = file.read_bytes()
    return [] if b"\0" in content else content.decode("utf-8").splitlines()


def test_no_text_names_a_registry_a_machine_or_a_secret() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{number} names {what}"
        for file in texts()
        for number, line in enumerate(lines_of(file), start=1)
        for what, pattern in TELLTALES.items()
        if pattern.search(line)
    ]
    assert found == []


def test_constraints_pin_exact_versions_and_nothing_else() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert [line for line in pins if not re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", line)] == []
    assert pins == sorted(pins, key=lambda line: line.split("==")[0])


def test_no_file_carries_a_note_to_self() -> None:
    note = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    found = [str(file.relative_to(ROOT)) for file in texts() for line in lines_of(file) if note.search(line)]
    assert found == []
