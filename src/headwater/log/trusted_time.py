"""How old is a segment, when clocks cannot be believed? Pure.

Retention deletes by age, so a wall clock that jumps ahead must not make records old. While the process runs, time is
counted on the monotonic clock, from the wall time it started with; a wall clock set back is followed at once. So:

* a jump ahead changes nothing until the next start;
* at a start on the same boot, the time since the last run is known exactly, whatever the wall clock says;
* after a reboot only the wall clock is left. If it claims that much time has passed since the last run, deletion is
  held back for a while (`hold_ms`), in which a wrong clock can be noticed and set right.
"""

from dataclasses import dataclass

HOLD_MS = 3_600_000
UNREMARKABLE_MS = 86_400_000


@dataclass(frozen=True)
class Moment:
    """The last time that a run wrote down."""

    trusted_ms: int
    elapsed_ms: int
    boot_id: str


class TrustedTime:
    def __init__(self, *, now_ms: int, elapsed_ms: int, boot_id: str = "", last: Moment | None = None) -> None:
        self._boot_id = boot_id
        self._base_ms, self._base_elapsed_ms = now_ms, elapsed_ms
        self._held_until_elapsed_ms = elapsed_ms
        if last is None:
            return
        if last.boot_id == boot_id and elapsed_ms >= last.elapsed_ms:
            self._base_ms = min(now_ms, last.trusted_ms + elapsed_ms - last.elapsed_ms)
        elif now_ms - last.trusted_ms > UNREMARKABLE_MS:
            self._held_until_elapsed_ms = elapsed_ms + HOLD_MS

    def now_ms(self, *, wall_ms: int, elapsed_ms: int) -> int:
        """
        >>> time = TrustedTime(now_ms=1_000, elapsed_ms=0)
        >>> time.now_ms(wall_ms=9_999_999, elapsed_ms=500)    # the wall clock jumped
        1500
        >>> time.now_ms(wall_ms=700, elapsed_ms=600)          # it was set back
        700
        """
        counted = self._base_ms + elapsed_ms - self._base_elapsed_ms
        if wall_ms < counted:
            self._base_ms, self._base_elapsed_ms = wall_ms, elapsed_ms
        return min(wall_ms, counted)

    def deletion_held(self, *, elapsed_ms: int) -> bool:
        return elapsed_ms < self._held_until_elapsed_ms

    def moment(self, *, wall_ms: int, elapsed_ms: int) -> Moment:
        return Moment(self.now_ms(wall_ms=wall_ms, elapsed_ms=elapsed_ms), elapsed_ms, self._boot_id)
