"""What the disk takes without any broker: `dd` with a flush at the end."""

import os
import subprocess
import time
from pathlib import Path

from benchmarks.process_clock import now_seconds
from benchmarks.warm_memory import warm_memory

BLOCKS = {"1 MB": 1_000_000, "1 kB": 1_000}


FLUSH = "disk, append and flush"


def disk_name(block: str) -> str:
    return f"disk, dd with {block} blocks"


def written_per_second(folder: Path, block: str, size: int) -> float:
    """Bytes per second of `dd conv=fdatasync` in blocks of this size."""
    target, block_bytes = folder / "dd", BLOCKS[block]
    os.sync()
    warm_memory(2 * size)
    start = now_seconds()
    subprocess.run(
        ["dd", "if=/dev/zero", f"of={target}", f"bs={block_bytes}", f"count={size // block_bytes}", "conv=fdatasync"],
        check=True,
        capture_output=True,
    )
    seconds = now_seconds() - start
    target.unlink()
    return size / seconds


def flush_delays(folder: Path, *, rate: int, count: int, size: int) -> list[int]:
    """Microseconds that appending `size` bytes and flushing them takes, at a steady rate."""
    target = folder / "flushed"
    file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    delays, start = [], now_seconds()
    for number in range(count):
        time.sleep(max(0.0, start + number / rate - now_seconds()))
        begin = now_seconds()
        os.write(file, bytes(size))
        os.fdatasync(file)
        delays.append(int((now_seconds() - begin) * 1e6))
    os.close(file)
    target.unlink()
    return delays
