"""Which start of the machine this is: files of a process that runs no more may be from before it."""

from pathlib import Path


def boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
