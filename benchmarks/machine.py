"""The machine in a few words that name nobody: cores, memory, kernel, and the kind of disk."""

import os
import platform
import re
from pathlib import Path


def description(folder: Path) -> str:
    memory = re.search(r"MemTotal:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    gib = round(int(memory[1]) / 1024**2) if memory else 0
    kernel = re.match(r"[\d.]+", platform.release())
    parts = [
        f"{os.cpu_count()} cores{processor()}",
        f"{gib} GiB of memory",
        f"Linux {kernel[0] if kernel else ''}",
        f"Python {platform.python_version()}",
        f"data on {disk(folder)}",
    ]
    return ", ".join(parts)


def processor() -> str:
    named = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return f" ({named[1].strip()})" if named else ""


def disk(folder: Path) -> str:
    """File system and kind of the disk under a folder, such as "ext4, virtual disk"."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    above = [(target, kind, device) for device, target, kind, *_ in mounts if folder.resolve().is_relative_to(target)]
    _, kind, device = max(above, key=lambda mount: len(mount[0]))
    if kind == "tmpfs":
        return "tmpfs, which is memory and no disk"
    return f"{kind}, {disk_kind(Path(device).name)}"


def disk_kind(device: str) -> str:
    if device.startswith(("vd", "xvd")):
        return "virtual disk"
    if device.startswith("nvme"):
        return "NVMe disk"
    rotational = Path(f"/sys/block/{device.rstrip('0123456789')}/queue/rotational")
    if not rotational.exists():
        return "a disk of unknown kind"
    return "rotating disk" if rotational.read_text().strip() == "1" else "solid-state disk"
