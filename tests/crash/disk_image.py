"""A file system in a file: copied while it is in use, it is what a power cut leaves.

What was not synced is still in the page cache, and so not in the copy. A killed process would not show that.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def run(*command: str | Path) -> None:
    subprocess.run([str(word) for word in command], check=True, capture_output=True)


@contextmanager
def mounted(image: Path, folder: Path) -> Iterator[Path]:
    mount(image, folder)
    try:
        yield folder
    finally:
        run("umount", folder)


def mount(image: Path, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    run("mount", "-o", "loop", image, folder)


def let_go(folder: Path) -> None:
    """Unmounts it lazily; a process that still has files of it open keeps those."""
    run("umount", "--lazy", folder)


def made_image(path: Path, *, size: int) -> Path:
    """An empty one; the test is skipped where that cannot be."""
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        pytest.skip("a power cut needs root and mkfs.ext4, to mount a disk image")
    with path.open("wb") as file:
        file.truncate(size)
    run("mkfs.ext4", "-q", path)
    try:
        with mounted(path, path.with_name("probe")):
            pass
    except subprocess.CalledProcessError:
        pytest.skip("this machine does not let us mount a disk image")
    return path
