"""How much work one schema may cause. Pure.

Work is counted in steps, not in time, so that a slow machine decides as a fast one does. A step is about a microsecond
of an ordinary core: comparing, copying and searching spend steps, and a request that has none left fails because the
schemas are too large, instead of keeping a thread for minutes.
"""

STEPS_MAX = 1_000_000
CHARACTERS_A_STEP = 50


class OutOfSteps(Exception):
    """The work is more than one schema may cause."""


class Budget:
    def __init__(self, steps: int = STEPS_MAX) -> None:
        self._left = steps

    def spend(self, steps: int, *, characters: int = 0) -> None:
        """
        >>> Budget(10).spend(4, characters=200)
        >>> Budget(10).spend(11)
        Traceback (most recent call last):
            ...
        headwater.registry.budget.OutOfSteps
        """
        self._left -= steps + characters // CHARACTERS_A_STEP
        if self._left < 0:
            raise OutOfSteps
