"""Memory that was given back goes back to the operating system.

The C library keeps what was freed for the next time: a heap for each few threads, each with as much at its end as twice
the largest block it has seen, up to 64 MiB. A node with forty threads that has once unpacked large batches would keep
a gigabyte for ever. With fixed bounds large blocks come from the system and return to it; small ones are as before.
"""

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
LARGE_BYTES = 1024**2
KEPT_BYTES = 4 * 1024**2
HEAPS_MAX = 4


def bound_kept_memory() -> None:
    """For the whole process; does nothing where the C library is another one than glibc."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
    mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
    mallopt(M_ARENA_MAX, HEAPS_MAX)
