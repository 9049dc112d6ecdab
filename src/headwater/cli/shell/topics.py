"""SELECT over topics from the shell: in a Spark of its own, which starts with the first such query and ends with the
shell. Views in the same statement are read from the node, each at its own position."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.cli.failure import Failure
from headwater.cli.flows import load, remembered, spark
from headwater.cli.output import counted
from headwater.client import RemoteNode
from headwater.errors import HeadwaterError, InvalidQuery

if TYPE_CHECKING:
    from headwater.flow.declare.topology.nodes import Source
    from headwater.flow.session import SparkSession
    from headwater.flow.sql.topic_query import TopicQuery, TopicRelation, ViewRelation
    from headwater.query.statement import Named

PREFIX = "topic."
MASTER = "local[*,4]"
VIEW_ROWS_MAX = 100_000
"""As many as the node answers."""
Row = dict[str, Any]


class TopicQueries:
    """`close` ends Spark. Without a data directory topics cannot be read: the node is only known by its HTTP port."""

    def __init__(self, data: Path | None, node: RemoteNode, note: Callable[[str], None]) -> None:
        self.data, self._node, self._note = data, node, note
        self._open = ExitStack()
        self._started: SparkSession | None = None
        self._noted = ""

    def close(self) -> None:
        self._open.close()

    def topics_in(self, sql: str) -> list[str]:
        """The names of topics that a statement reads; none if it is no SELECT."""
        names = _names(sql)
        views, topics = self._views(), self._topics()
        return [one for one in map(_said, names) if one not in views and _topic_of(one) in topics]

    def answer(self, sql: str, limit: int) -> Row | None:
        """As POST /query answers; None where the statement reads no topic."""
        names = _names(sql)
        views, topics = self._views(), self._topics()
        if not any(_said(one) not in views and _topic_of(_said(one)) in topics for one in names):
            return None
        self._refuse_unknown(names, views, topics)
        if self.data is None:
            raise Failure("topics can be asked on the machine of their node only: say --data, without --http")
        from headwater.flow.sql.topic_query import TopicRelation

        relations: dict[str, TopicRelation | ViewRelation] = {}
        positions: dict[str, object] = {}
        declared = self._declared()
        for said in map(_said, names):
            if said in views and said not in relations:
                relations[said], positions[said] = self._view(said)
            elif said not in relations:
                topic = _topic_of(said)
                relations[said] = TopicRelation(said, topic, declared.get(topic))
        return self._computed(_rewritten(sql, names), list(relations.values()), positions, limit)

    def _computed(
        self, sql: str, relations: "Sequence[TopicRelation | ViewRelation]", positions: dict[str, object], limit: int
    ) -> Row:
        from headwater.flow.kafka.client import Client
        from headwater.flow.plan.explanations import explain
        from headwater.flow.session import SPARK_ERRORS
        from headwater.flow.source.reach import address_of_node
        from headwater.flow.sql.topic_query import TopicRelation, ends_of
        from headwater.query.rows import rows_of, type_name

        assert self.data is not None
        topics = sorted({one.topic for one in relations if isinstance(one, TopicRelation)})
        with Client(address_of_node(self.data)) as client:
            position, records = ends_of(client, topics)
        self._note(f"reading up to {counted(records, 'record')} of {', '.join(topics)} with Spark")
        try:
            found = self._spark().run(sql, relations, position, limit, self._progress)
        except SPARK_ERRORS as error:
            raise Failure(f"this cannot be asked: {explain(error)}") from None
        if found.poisoned:
            self._note(f"{counted(found.poisoned, 'record')} left out that cannot be decoded")
        written = {topic: {str(one): end for one, end in parts.items()} for topic, parts in position.items()}
        return {
            "columns": [{"name": one.name, "type": type_name(one.type)} for one in found.rows.schema],
            "rows": rows_of(found.rows), "cut": found.cut, "position": None if positions else written,
            "views": {**positions, **{topic: {topic: parts} for topic, parts in written.items()}},
        }  # fmt: skip

    def _progress(self, done: int, tasks: int) -> None:
        said = f"{done} of {counted(tasks, 'task')} done"
        if tasks and done < tasks and said != self._noted:
            self._noted = said
            self._note(said)

    def session(self) -> "SparkSession":
        """Spark, which is started with the first call."""
        if self._started is None:
            arguments = argparse.Namespace(data=self.data, master=MASTER, conf=[])
            self._started = self._open.enter_context(spark(arguments, "headwater sql"))
        return self._started

    def _spark(self) -> "TopicQuery":
        from headwater.flow.sql.topic_query import TopicQuery

        return TopicQuery(self.session(), {"data": str(self.data)})

    # -- names ---------------------------------------------------------------------------------------------------------

    def _views(self) -> dict[str, Row]:
        views = self._node.views()
        short = {str(one["view"]): one for one in views if sum(one["view"] == other["view"] for other in views) == 1}
        return {**short, **{str(one["name"]): one for one in views}}

    def _topics(self) -> set[str]:
        return {str(one["name"]) for one in self._node.topics()}

    def _refuse_unknown(self, names: "Sequence[Named]", views: Mapping[str, Row], topics: set[str]) -> None:
        for said in map(_said, names):
            if said not in views and _topic_of(said) not in topics:
                raise Failure(
                    f"there is no view and no topic {said[:80]}. SHOW VIEWS and SHOW TOPICS list what there is"
                )

    def _declared(self) -> "dict[str, Source]":
        """What apps that have run here declare of topics, by topic; of two apps the first by name."""
        from headwater.flow.declare.topology.registered import settle

        assert self.data is not None
        found: dict[str, Source] = {}
        for name, known in sorted(remembered(self.data).items()):
            try:
                app = load(argparse.Namespace(file=known.file, app=name, data=self.data))
                settle(app, self.data)
            except HeadwaterError as error:
                self._note(f"what app {name} says of its topics is not known: {str(error).rstrip('.')}")
                continue
            for source in app.sources.values():
                found.setdefault(source.topic, source)
        return found

    def _view(self, said: str) -> "tuple[ViewRelation, object]":
        from headwater.flow.sql.topic_query import ViewRelation

        quoted = ".".join(f"`{part}`" for part in self._views()[said]["name"].split(".", 1))
        answer = self._node.query(f"SELECT * FROM {quoted}", limit=VIEW_ROWS_MAX)
        if answer["cut"]:
            raise Failure(
                f"view {said} has more than {VIEW_ROWS_MAX:,} rows, too many to be asked together with topics"
            )
        ddl = ", ".join(f"`{one['name']}` {one['type']}" for one in answer["columns"])
        (position,) = answer["views"].values()
        return ViewRelation(said, ddl, answer["rows"]), position


def _names(sql: str) -> "list[Named]":
    from headwater.query.statement import names_in

    try:
        return names_in(sql)
    except InvalidQuery:
        return []


def _said(name: "Named") -> str:
    return ".".join(name.parts)


def _topic_of(said: str) -> str:
    return said.removeprefix(PREFIX)


def _rewritten(sql: str, names: "Sequence[Named]") -> str:
    """Each name as one word, which is that of a temporary view of Spark's."""
    for one in reversed(names):
        sql = f"{sql[: one.begin]}`{_said(one)}`{sql[one.end :]}"
    return sql
