"""The sink of each output."""

import sys
import threading
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pyarrow as pa

from headwater.errors import InvalidSetting, TopicExists
from headwater.flow.commit.job_context import JobContext
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.declare.app import TOPIC, VIEW, Output
from headwater.flow.declare.duration import duration_us
from headwater.flow.declare.sinks import Console, Database, Foreach, Parquet, Redis, Search, Webhook
from headwater.flow.declare.topology.graph import Planned
from headwater.flow.kafka.client import Client
from headwater.flow.sinks.console import ConsoleSink
from headwater.flow.sinks.folders import NoteFolder, folder_at
from headwater.flow.sinks.foreach import ForeachBatchSink
from headwater.flow.sinks.parquet import ParquetSink
from headwater.flow.sinks.redis_cache import RedisSink
from headwater.flow.sinks.search import SearchSink
from headwater.flow.sinks.sink import FencedSink, Sink
from headwater.flow.sinks.topics.topic import TopicSink
from headwater.flow.sinks.view import ViewSink, table_sink, view_sink
from headwater.flow.sinks.webhook import WebhookSink
from headwater.log.own_topics import NODE_ONLY, TAKES_ALL
from headwater.small_file import COPY, seal, unseal
from headwater.views.full_text import index_folder
from headwater.views.shape import ONE_ROW
from headwater.views.store import ViewStore, open_store
from headwater.webhooks.sending import Sender

RECORDS = pa.schema([("_key", pa.binary()), ("_value", pa.binary()), ("_timestamp_ms", pa.int64())])


OpenStore = Callable[[str | Path, str], ViewStore]


def opened_once() -> OpenStore:
    """Opens each store once: what a batch writes to several views of one is then one transaction."""
    return cache(open_store)


def sink_of(
    context: JobContext, planned: Planned, *, data: Path, client: Client, stopping: threading.Event, stores: OpenStore
) -> Sink:
    """The sink of an output, prepared: it can be written to, until it is closed. `stopping` is set when it should not
    wait for other systems any longer."""
    output, resolved = planned.output, context.resolved[planned.name]
    if output.kind == TOPIC:
        configs = {"cleanup.policy": "compact"} if planned.node.keyed else {}
        return topic_sink(output.name, context.folder, client, partitions=output.partitions, configs=configs)
    if output.kind == VIEW:
        sink: Sink = view_sink(stores(output.store or data, context.app), output.name, context.identity.job_id)
    else:
        sink = made_sink(context.app, output, data, stopping, stores)
    try:
        whole = planned.node.keyed and isinstance(sink, ViewSink)
        if isinstance(sink, FencedSink):  # first: an older driver may hold locks that the rest would wait for
            sink.fence(context.identity.job_id, context.folder.epoch)
        sink.prepare(resolved.schema, resolved.key or (ONE_ROW if whole else ()))
    except BaseException:
        sink.close()
        raise
    return sink


def show(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def made_sink(
    app: str, output: Output, data: Path, stopping: threading.Event | None = None, stores: OpenStore = open_store
) -> Sink:
    """Of a view or of a sink that the app declares; not prepared yet."""
    if output.kind == VIEW:
        return ViewSink(stores(output.store or data, app), output.name)
    match output.sink:
        case Parquet(path):
            return ParquetSink(path, name=output.name)
        case Database(url, table):
            return table_sink(url, table, name=output.name)
        case Foreach(function):
            return ForeachBatchSink(function, name=output.name)
        case Redis(url, prefix, expire):
            expire_ms = None if expire is None else max(1, duration_us(expire) // 1000)
            return RedisSink(url, prefix=prefix, name=output.name, expire_ms=expire_ms)
        case Webhook(url, secret, allow_private, rows_max, timeout_seconds):
            sender = Sender(url, timeout_seconds, allow_private)
            return WebhookSink(sender, name=output.name, secret=secret, rows_max=rows_max, stopping=stopping)
        case Search(view, columns, store):
            return SearchSink(index_folder(data, app, view), view, columns, open_store(store or data, app))
        case Console(rows_max):
            return ConsoleSink(show, rows_max=rows_max, name=output.name)
    raise AssertionError(f"{output} has no sink")


def topic_sink(
    topic: str, folder: JobFolder, client: Client, *, partitions: int = 1, configs: dict[str, str] | None = None
) -> TopicSink:
    """A topic that is made if there is none yet."""
    _make_missing(client, topic, partitions, configs or {})
    return _prepared(TopicSink(client, topic, _notes(folder), staging=folder.sinks.absolute() / "stage"))


def own_topic_sink(topic: str, folder: JobFolder, client: Client, *, kept: bool = False) -> TopicSink:
    """The sink of a topic in which a job reports about itself: it takes whatever is written, however the topic is set
    up. `kept`: its records are kept for ever, unless the topic is set up otherwise."""
    configs = {"cleanup.policy": "delete", **TAKES_ALL}
    ever = {"retention.ms": "-1"} if kept else {}
    _as_known({**configs, **ever}, lambda known: _make_missing(client, topic, 1, known))
    return _prepared(
        TopicSink(
            client, topic, _notes(folder),
            repair=lambda: _as_known(configs, lambda known: client.alter_topic(topic, known)),
        )
    )  # fmt: skip


def _as_known(configs: Mapping[str, str], use: Callable[[Mapping[str, str]], None]) -> None:
    """Apache Kafka knows all settings but our own, and has none that would be refused for lack of them."""
    try:
        use(configs)
    except InvalidSetting:
        use({name: value for name, value in configs.items() if name not in NODE_ONLY})


def _make_missing(client: Client, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
    if topic not in client.topics():
        try:
            client.create_topic(topic, partitions=partitions, configs=configs)
        except TopicExists:
            pass


class JobNotes:
    """What sinks of a job note, where the job is kept at a URL. Its checkpoint needs no copies of files."""

    def __init__(self, folder: JobFolder) -> None:
        self._folder = folder
        self.url = str(folder.sinks)

    def put(self, path: str, content: bytes) -> None:
        if not path.endswith(COPY):
            self._folder.write(f"sinks/{path}", unseal(content)[0])

    def get(self, path: str) -> bytes | None:
        said = None if path.endswith(COPY) else self._folder.read(f"sinks/{path}")
        return None if said is None else seal(said, version=1)


def _notes(folder: JobFolder) -> NoteFolder:
    if folder.kept_at:
        return JobNotes(folder)
    folder.sinks.mkdir(parents=True, exist_ok=True)
    return folder_at(str(folder.sinks))


def _prepared(sink: TopicSink) -> TopicSink:
    sink.prepare(RECORDS, ())
    return sink
