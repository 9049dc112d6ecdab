"""What workers do with memory that they have freed."""

import subprocess
import sys

CHUNKS, PARTS, PART_BYTES, PAGE_BYTES = 20, 5, 4 * 1024**2, 4096

PROGRAM = f"""
import resource
from headwater.flow.worker_memory import keep_freed_memory

keep_freed_memory()

def read_chunk():
    return [b"x" * {PART_BYTES} for _ in range({PARTS})]

read_chunk()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({CHUNKS}):
    read_chunk()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_a_worker_reads_chunk_after_chunk_into_the_same_pages() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert int(done.stdout) < CHUNKS * PARTS * PART_BYTES // PAGE_BYTES // 4
