"""Starts a PostgreSQL in a new folder, says where that is and which process it is, and waits until it is killed."""

import json
import sys
from pathlib import Path
from tempfile import mkdtemp

from headwater.demo.cluster import Cluster
from headwater.demo.database import newest_programs


def main() -> None:
    programs = newest_programs()
    assert programs is not None
    folder = Path(mkdtemp(prefix="headwater-owned-"))
    cluster = Cluster(programs, folder, {})
    cluster.start()
    print(json.dumps({"folder": str(folder), "process": cluster.process_id, "url": cluster.url}), flush=True)
    sys.stdin.read()
    cluster.stop()


if __name__ == "__main__":
    main()
