"""headwater: a durable, partitioned log that every Kafka client can talk to.

    import headwater as hw

    with hw.Log.open("data") as log:
        log.create_topic("orders", partitions=4)
        position = log.append("orders", hw.Record(b"two lamps", key=b"ada"))

Names are loaded when they are first used, so that importing headwater costs nothing and a program that only reads
records never pays for the server.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater import capture
    from headwater.alerts import notify
    from headwater.client import connect
    from headwater.errors import HeadwaterError
    from headwater.flow import sketches
    from headwater.flow.declare import sinks
    from headwater.flow.declare.aggregates import aggregate, bloom, collect, count_min, distinct, percentile, top_k
    from headwater.flow.declare.app import App
    from headwater.flow.declare.clocks import device_time
    from headwater.flow.declare.comparisons import anomaly, change, rate, ratio, rolling
    from headwater.flow.operators.windows.kinds.calendar import calendar
    from headwater.flow.operators.windows.kinds.count import count_window
    from headwater.flow.operators.windows.kinds.hopping import hopping
    from headwater.flow.operators.windows.kinds.session import session
    from headwater.flow.operators.windows.kinds.sliding import sliding
    from headwater.flow.operators.windows.kinds.tumbling import tumbling
    from headwater.log.log import Log
    from headwater.log.topic import Topic
    from headwater.node import Node
    from headwater.record import Position, Record, TopicPartition
    from headwater.settings import LogSettings, NodeSettings, WireSettings
    from headwater.views.view import View

    __version__: str

_HOMES = {
    "App": "headwater.flow.declare.app",
    "View": "headwater.views.view",
    "capture": "headwater.capture",
    "connect": "headwater.client",
    "device_time": "headwater.flow.declare.clocks",
    "notify": "headwater.alerts.notify",
    "sinks": "headwater.flow.declare.sinks",
    "HeadwaterError": "headwater.errors",
    "Log": "headwater.log.log",
    "LogSettings": "headwater.settings",
    "Node": "headwater.node",
    "NodeSettings": "headwater.settings",
    "Position": "headwater.record",
    "Record": "headwater.record",
    "Topic": "headwater.log.topic",
    "TopicPartition": "headwater.record",
    "WireSettings": "headwater.settings",
    **dict.fromkeys(("anomaly", "change", "rate", "ratio", "rolling"), "headwater.flow.declare.comparisons"),
    "sketches": "headwater.flow.sketches",
    **dict.fromkeys(
        ("aggregate", "bloom", "collect", "count_min", "distinct", "percentile", "top_k"),
        "headwater.flow.declare.aggregates",
    ),
    "calendar": "headwater.flow.operators.windows.kinds.calendar",
    "count_window": "headwater.flow.operators.windows.kinds.count",
    "hopping": "headwater.flow.operators.windows.kinds.hopping",
    "session": "headwater.flow.operators.windows.kinds.session",
    "sliding": "headwater.flow.operators.windows.kinds.sliding",
    "tumbling": "headwater.flow.operators.windows.kinds.tumbling",
}

__all__ = [
    "App",
    "HeadwaterError",
    "Log",
    "LogSettings",
    "Node",
    "NodeSettings",
    "Position",
    "Record",
    "Topic",
    "TopicPartition",
    "View",
    "WireSettings",
    "__version__",
    "aggregate",
    "anomaly",
    "bloom",
    "calendar",
    "capture",
    "change",
    "collect",
    "connect",
    "count_min",
    "count_window",
    "device_time",
    "distinct",
    "hopping",
    "notify",
    "percentile",
    "rate",
    "ratio",
    "rolling",
    "session",
    "sinks",
    "sketches",
    "sliding",
    "top_k",
    "tumbling",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        value: object = import_module("importlib.metadata").version("headwater")
    elif name in _HOMES:
        home = import_module(_HOMES[name])
        value = getattr(home, name, home)  # some names are modules
    else:
        raise AttributeError(f"module 'headwater' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
