"""Workers keep the memory that they have freed for their next chunk.

Every chunk of a topic takes the same few megabytes again: its bytes, the places of its values, its columns. The C
library gives blocks of that size back to the system at once, which has to clear each page that is asked for again: a
third of what a task took to read (measured). With fixed bounds a worker keeps some of it at the end of its heap.
"""

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGE_BYTES = 16 * 1024**2
"""Blocks from this size on come from the system, and return to it: a chunk has 4 MiB, its parts are smaller."""
KEPT_BYTES = 32 * 1024**2
"""As much as a worker keeps of what is free at the end of its heap."""


def keep_freed_memory() -> None:
    """For this process and those forked from it; does nothing where the C library is another one than glibc."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
    mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
