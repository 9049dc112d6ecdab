"""What a batch knows of time, and which results are emitted at which watermark (pure).

    updates       every window that has rows, in each batch
    final         a window once the watermark has reached its end
    corrections   the same, and again whenever a straggler changes it before the horizon is over
    early         (of the last two) also before the end; then a column `final` distinguishes them

Nothing is kept for a window to know whether it was emitted: the watermarks of the batch before and of this one say it.
"""

from dataclasses import dataclass

import numpy as np

from headwater.flow.state.runs.equality import Integers, Mask

UPDATES, FINAL, CORRECTIONS = EMISSIONS = ("updates", "final", "corrections")
NEVER_US = -(2**62)
"""Before all times: the watermark while nothing has been read."""
FOREVER_US = 2**62
"""After all times."""


@dataclass(frozen=True)
class WindowClock:
    """Watermarks of the batch before and of this one; None while there was nothing. `horizon_us` is 0 unless
    corrections are emitted.
    """

    before_us: int | None
    watermark_us: int | None
    horizon_us: int = 0
    emit: str = UPDATES
    early: bool = False

    @property
    def emits_open(self) -> bool:
        """Windows are emitted before their end."""
        return self.emit == UPDATES or self.early

    @property
    def emits_end(self) -> bool:
        """Something is emitted when the watermark reaches a window's end."""
        return self.emit != UPDATES

    @property
    def marks_final(self) -> bool:
        return self.early and self.emits_end

    @property
    def passed_before_us(self) -> int:
        return NEVER_US if self.before_us is None else self.before_us

    @property
    def passed_us(self) -> int:
        return NEVER_US if self.watermark_us is None else self.watermark_us

    @property
    def forgotten_us(self) -> int:
        """Windows that end here or before are no longer kept after this batch."""
        return self.passed_us - self.horizon_us

    @property
    def moved(self) -> bool:
        return self.passed_us > self.passed_before_us

    def was_final(self, ends_us: Integers) -> Mask:
        return np.asarray(ends_us <= self.passed_before_us, np.bool_)

    def is_final(self, ends_us: Integers) -> Mask:
        return np.asarray(ends_us <= self.passed_us, np.bool_)

    def was_emitted(self, ends_us: Integers) -> Mask:
        """Of windows that were in the state before the batch: were they emitted?"""
        return np.ones(len(ends_us), np.bool_) if self.emits_open else self.was_final(ends_us)

    def is_emitted(self, ends_us: Integers) -> Mask:
        """Of windows that have rows after the batch: are they emitted?"""
        return np.ones(len(ends_us), np.bool_) if self.emits_open else self.is_final(ends_us)

    def closes(self, ends_us: Integers) -> Mask:
        """Windows whose end the watermark reaches in this batch."""
        return self.is_final(ends_us) & ~self.was_final(ends_us)
