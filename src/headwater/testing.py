"""The test kit: what headwater's own tests use, for the tests of its users."""

from headwater.clock import ManualClock
from headwater.log.storage.memory import MemoryStorage
from headwater.log.storage.simulated import Fault, SimulatedDisk

__all__ = ["Fault", "ManualClock", "MemoryStorage", "SimulatedDisk"]
