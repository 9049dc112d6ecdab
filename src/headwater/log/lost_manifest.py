"""Which offsets a partition has lost together with its manifest: what other files say about it. (pure)

Without a manifest no file lists the segments that there were. What is left to find a missing one by:

* The checkpoint has the start offset: the first segment, here or in the archive, holds it.
* Offsets follow each other without a gap from segment to segment, unless compaction has removed some; then there is a
  `cleaning.json`.
* Indexes without their segment: it is deleted last, and after the start offset was moved past it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise

from headwater.log.compaction import CLEANING
from headwater.log.manifest import Gap
from headwater.log.segment import segment_name
from headwater.small_file import copy_path


def lost_gaps(
    directory: str, names: Collection[str], *, start_offset: int, ends: Mapping[int, int], archived: Mapping[int, int],
    known: Iterable[Gap],
) -> list[Gap]:  # fmt: skip
    """Gaps before the end of the last segment that are not known yet.

    `names` are the files of the partition; `ends` has the end offset of every segment that is there, by base offset,
    `archived` those in the archive.

    >>> lost_gaps("t-0", ["040.log"], start_offset=0, ends={40: 50}, archived={0: 20}, known=[])
    [Gap(first_offset=20, end_offset=40, why='no segment holds them')]
    """
    strays = _segments_of_stray_indexes(names)
    held = dict(ends)
    if CLEANING in names or copy_path(CLEANING) in names:
        held |= {base: _end_if_compacted(base, following, strays) for base, following in pairwise(sorted(ends))}
    spans = [*held.items(), *archived.items(), *((gap.first_offset, gap.end_offset) for gap in known)]
    gaps, reached = [], start_offset
    for base, end in sorted(spans):
        if base > reached:
            gaps.append(Gap(reached, base, _why(directory, strays, reached, base)))
        reached = max(reached, end)
    return gaps


def _segments_of_stray_indexes(names: Collection[str]) -> list[int]:
    stems = {name.partition(".")[0] for name in names if name.endswith((".index", ".timeindex"))}
    return sorted(int(stem) for stem in stems if stem.isdigit() and f"{stem}.log" not in names)


def _end_if_compacted(base: int, following: int, strays: Sequence[int]) -> int:
    """Where records were removed, only the indexes of a missing segment show that there was one."""
    return next((stray for stray in strays if base < stray < following), following)


def _why(directory: str, strays: Sequence[int], first: int, end: int) -> str:
    files = [f"{directory}/{segment_name(stray)}.log" for stray in strays if first <= stray < end]
    return f"{', '.join(files)} is missing" if files else "no segment holds them"
