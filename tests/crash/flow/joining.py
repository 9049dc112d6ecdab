"""An app whose joins stand right behind their topics, and a `headwater` that dies at a chosen moment.

python -m tests.crash.flow.joining PLACE BEFORE|AFTER NTH ARGUMENTS OF HEADWATER ...
"""

import os
import signal
import sys
from pathlib import Path

import headwater as hw
from headwater.cli.main import main as headwater
from tests.crash.flow.moments import Moment, arm

FILE = Path(__file__)
SEARCHES, CLICKS, CLICKED = "searches", "clicks", "clicked"
ITEMS, SHOPS, OFFERED = "items", "shops", "offered"


def declare() -> hw.App:
    """Events that lie by what they are joined on, and tables that do not."""
    app = hw.App("mall", shards=2)
    searches = app.stream(SEARCHES, "id long, session string, at timestamp", time="at", ahead=None)
    clicks = app.stream(CLICKS, "session string, url string, at timestamp", time="at", ahead=None)
    app.topic(CLICKED, key="id")(
        lambda: searches.join(clicks, on="session", within="5 minutes", how="left", prefix="click_", name="clicked")
    )
    items = app.table(ITEMS, "item string, shop string, price long", key="item")
    shops = app.table(SHOPS, "shop string, town string", key="shop")
    app.view(key="item", name=OFFERED)(lambda: items.join(shops, on="shop", name="offered"))
    return app


app = declare()


if __name__ == "__main__":
    place, when, nth, *command = sys.argv[1:]
    arm(Moment(place, after=when == "after"), int(nth), lambda: os.kill(os.getpid(), signal.SIGKILL))
    sys.exit(headwater(command))
