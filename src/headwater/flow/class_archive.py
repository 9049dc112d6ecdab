"""Spark's classes as the JVM wants them in memory, kept in a file: a third of a start is reading them from jars.

    CACHE/headwater/classes/KEY.jsa        the archive, as `java -Xshare:dump` writes it
    CACHE/headwater/classes/KEY.json       its size and checksum; or why there cannot be one
    CACHE/headwater/classes/KEY.17.list    the classes that process 17 is loading, for an archive to be made of

The first session without an archive notes what its JVM loads. When it has ended, a process of lowest priority makes the
archive from that, and later sessions begin with it. Java, jars and class path are in the key. An archive that is not as
it was written is not used, and made again. See docs/decisions/0025.
"""

import hashlib
import json
import mmap
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path

from crc32c import crc32c

from headwater.flow.java import version_text

KEPT = 3
"""Archives, for as many versions of Java and Spark; one is 200 MB."""
DUMP_SECONDS_MAX = 900

_left: list["subprocess.Popen[bytes]"] = []
"""Processes that were begun and are left to themselves: Python warns of one that is not referenced any more."""
QUIET = "-Xlog:cds=off"
"""The JVM works without what it cannot use; no user has to know."""


@dataclass(frozen=True)
class ClassArchive:
    folder: Path
    key: str

    @property
    def archive(self) -> Path:
        return self.folder / f"{self.key}.jsa"

    @property
    def note(self) -> Path:
        return self.folder / f"{self.key}.json"

    @property
    def classes(self) -> Path:
        return self.folder / f"{self.key}.{os.getpid()}.list"

    def options(self) -> list[str]:
        """Options of the JVM: to use the archive, to note its classes for one, or nothing."""
        said = self._said()
        if said is None or not self._sound(said):
            # "failed" stays until Java, Spark or the class path are others.
            return [] if said is not None and "failed" in said else [f"-XX:DumpLoadedClassList={self.classes}"]
        with suppress(OSError):
            os.utime(self.note)  # the one used last is removed last
        return [f"-XX:SharedArchiveFile={self.archive}", QUIET]

    def _said(self) -> dict[str, object] | None:
        try:
            said = json.loads(self.note.read_bytes())
        except (OSError, ValueError):
            return None
        return said if isinstance(said, dict) else None

    def _sound(self, said: Mapping[str, object]) -> bool:
        try:
            return "failed" not in said and (said.get("bytes"), said.get("crc32c")) == checksum(self.archive)
        except (OSError, ValueError):
            return False

    # -- making one ----------------------------------------------------------------------------------------------------

    def make_in_background(self, java: Path, class_path: str) -> None:
        """If classes were noted: begin, and leave it to itself."""
        if not self.classes.is_file():
            return
        command = [sys.executable, "-m", __name__, str(self.folder), self.key, str(self.classes), str(java), class_path]
        under_way = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        _left.append(under_way)

    def make(self, classes: Path, java: Path, class_path: str) -> None:
        """Make the archive, unless another process is at it, and remove what is no longer needed."""
        fresh = self.archive.with_suffix(f".{os.getpid()}.new")
        try:
            with self._alone() as alone:
                said = self._said()
                if not alone or (said is not None and self._sound(said)):
                    return
                failure = dump(java, classes, fresh, class_path)
                if failure is None:
                    size, crc = checksum(fresh)
                    fresh.replace(self.archive)
                    self._write_note({"bytes": size, "crc32c": crc})
                else:
                    self._write_note({"failed": failure})
                self._remove_old()
        finally:
            classes.unlink(missing_ok=True)
            fresh.unlink(missing_ok=True)

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        with (self.folder / "lock").open("wb") as lock:
            try:
                flock(lock, LOCK_EX | LOCK_NB)
            except OSError:
                yield False
            else:
                yield True

    def _write_note(self, said: Mapping[str, object]) -> None:
        fresh = self.note.with_suffix(f".{os.getpid()}.new")
        fresh.write_text(json.dumps(said))
        fresh.replace(self.note)

    def _remove_old(self) -> None:
        """All but the archives used last, and lists that a killed process has left."""
        newest_first = sorted(self.folder.glob("*.json"), key=lambda note: -note.stat().st_mtime_ns)
        for note in newest_first[KEPT:]:
            note.unlink(missing_ok=True)
            note.with_suffix(".jsa").unlink(missing_ok=True)
        for left in (*self.folder.glob("*.list"), *self.folder.glob("*.new")):
            if not process_lives(left.suffixes[-2].removeprefix(".")):
                left.unlink(missing_ok=True)


def find_archive(java: Path, jars: Path, class_path: str) -> ClassArchive | None:
    """The archive for this Java and these jars, there or not; None where no place for one can be had."""
    folder = cache_folder() / "classes"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        about = folder.stat()
        listed = sorted((entry.name, entry.stat().st_size, entry.stat().st_mtime_ns) for entry in os.scandir(jars))
    except OSError:
        return None
    # It is code that will run: no other user may have written it.
    if about.st_uid != os.getuid() or about.st_mode & 0o022:
        return None
    described = json.dumps([str(java), version_text(java), str(jars), listed, class_path])
    return ClassArchive(folder, hashlib.sha256(described.encode()).hexdigest()[:24])


def cache_folder() -> Path:
    """Where a user's programs keep what they can make again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headwater"


def checksum(path: Path) -> tuple[int, int]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content:
        return len(content), crc32c(content)


def dump(java: Path, classes: Path, target: Path, class_path: str) -> str | None:
    """Why it did not work; None if it did."""
    command = [
        str(java / "bin" / "java"), "-Xshare:dump", "-XX:+UseSerialGC", f"-XX:SharedClassListFile={classes}",
        f"-XX:SharedArchiveFile={target}", QUIET, "-cp", class_path,
    ]  # fmt: skip
    try:
        ended = subprocess.run(command, capture_output=True, timeout=DUMP_SECONDS_MAX, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if ended.returncode != 0 or not target.is_file():
        return (ended.stdout + ended.stderr)[-500:].decode(errors="replace") or f"java ended with {ended.returncode}"
    return None


def process_lives(number: str) -> bool:
    try:
        os.kill(int(number), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True


def main() -> None:
    folder, key, classes, java, class_path = sys.argv[1:]
    os.nice(19)
    ClassArchive(Path(folder), key).make(Path(classes), Path(java), class_path)


if __name__ == "__main__":
    main()
