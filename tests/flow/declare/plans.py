"""An app with every kind of step, source and output, declared without Spark."""

import headwater as hw
from headwater.flow.declare.app import App
from headwater.flow.declare.pictures.outline import Outline, OutputPreview, outline
from headwater.flow.declare.stream import Stream, Table
from headwater.flow.declare.topology.graph import plan

TEXT = "url <> '' and \"a\" < 'b' & session"
"""A condition with all the characters that mean something in pictures."""


def whole_app() -> App:
    app = hw.App("web")
    columns = "session string, url string, tags array<string>, at timestamp"
    clicks = app.stream("clicks", columns, time="at", lateness="10 minutes")
    searches = app.stream("searches", "session string, url string", format="csv")
    rates = app.table("rates", "currency string, rate double", key="currency")
    tagged = app.stream("tags", "tag string, url string")

    @app.view(key="url", store="postgresql://ada:secret@db.example/web")
    def by_url() -> Table:
        """How often each page was seen."""
        seen = clicks.select("session", "url").union(searches).where(TEXT)
        return seen.dedupe("session", within="1 hour").by("url").agg("count(*) as seen", name="seen")

    @app.topic("tags", partitions=3)
    def tags() -> Stream:
        return clicks.explode("tags", "tag").select("tag", "url")

    app.view(key="tag", name="tag_counts")(lambda: tagged.by("tag").count())
    app.sink(hw.sinks.Console(), name="rate-changes")(rates.changes)
    app.topic("fast-rates")(lambda: rates.where("rate > 1").with_columns(twice="rate * 2"))
    app.sink(hw.sinks.Parquet("lake/clicks"), name="archive")(lambda: app.sql("select session,\n url from clicks"))
    app.sink(hw.sinks.Database("postgresql://ada:secret@db.example/web", "clicks"), key="session", name="copy")(
        lambda: clicks.apply(cleaned).latest("session")
    )
    app.sink(hw.sinks.Foreach(cleaned), name="own")(lambda: clicks)
    return app


def cleaned(*anything: object) -> None:
    """Stands for a function of the user's."""


def whole_outline(previews: dict[str, OutputPreview] | None = None) -> Outline:
    app = whole_app()
    return outline(app, plan(app), previews)
