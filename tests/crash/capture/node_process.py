"""A node whose captures strike at a chosen moment: the node itself, the database, or only the capture.

python -m tests.crash.capture.node_process DATA VICTIM POINT NTH DATABASE-PID
"""

import json
import os
import signal
import sys
import threading

from headwater.capture.appender import LogAppender
from headwater.capture.postgresql import source
from headwater.capture.postgresql.rows import loading
from headwater.capture.supervisor import Supervisor
from headwater.clock import SystemClock
from headwater.errors import SourceUnavailable
from headwater.log.log import Log
from tests.crash.node_process import SETTINGS

NODE, DATABASE, CAPTURE, NOTHING = "node", "database", "capture", "nothing"


class Striking:
    """Counts how often captures come by a point; at the N-th time the victim dies."""

    def __init__(self, victim: str, point: str, nth: int, database: int) -> None:
        self._victim, self._wanted, self._left, self._database = victim, point, nth, database
        self._lock = threading.Lock()

    def point(self, name: str) -> None:
        with self._lock:
            if name != self._wanted or self._left == 0:
                return
            self._left -= 1
            if self._left:
                return
        print(json.dumps({"struck": self._victim}), flush=True)
        if self._victim == NODE:
            os.kill(os.getpid(), signal.SIGKILL)
        elif self._victim == DATABASE:
            os.kill(self._database, signal.SIGKILL)
        elif self._victim == CAPTURE:
            raise SourceUnavailable("the capture was ended on purpose")


def main(data: str, victim: str, point: str, nth: str, database: str) -> None:
    # A capture without transaction boundaries emits most of its changes in runs; the other one by one.
    source.RUNS_FROM_MESSAGES, source.RUN_MESSAGES_MIN = 32, 4
    loading.load()
    striking, ending = Striking(victim, point, int(nth), int(database)), threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: ending.set())
    log = Log.open(data, settings=SETTINGS)
    captures = Supervisor(log.path, lambda: LogAppender(log), SystemClock(), point=striking.point)
    captures.start()
    print(json.dumps({"process": os.getpid()}), flush=True)
    while not ending.wait(0.1):
        log.maintain()
    captures.stop()
    log.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
