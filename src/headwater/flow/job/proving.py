"""Find what is to be proved, and prove it."""

from pathlib import Path

from pyspark.sql import SparkSession

from headwater.errors import FlowError, InvalidDeclaration
from headwater.flow.declare.app import VIEW, App
from headwater.flow.declare.graph import plan
from headwater.flow.declare.registered import settle
from headwater.flow.job.explaining import explain
from headwater.flow.job.inventory import checkpoint_of
from headwater.flow.job.pasts import past_of
from headwater.flow.job.verifying import Verified, verify
from headwater.flow.kafka.client import Client
from headwater.views.store import open_store


def prove(app: App, view: str, session: SparkSession, data: Path, address: str, *, direct: bool) -> Verified:
    """Recompute a view of an app in batch and compare it with what is stored."""
    settle(app, data)
    views = {one.name: (job, one) for job in plan(app, explain) for one in job.outputs if one.output.kind == VIEW}
    if view not in views:
        known = ", ".join(sorted(views)) or "none"
        raise InvalidDeclaration(f"app {app.name} has no view {view}", f"It has: {known}.")
    job, planned = views[view]
    store = open_store(planned.output.store or data, app.name, read_only=True)
    where = {"data": str(data)} if direct else {"address": address}
    try:
        with Client(address) as client:
            folder = checkpoint_of(data, app.name, job.name)
            if folder is None:
                raise FlowError(f"{data} has no checkpoint of job {job.name}, which keeps view {view}", "Run the app.")
            return verify(
                session, job, planned, store, where, client,
                lambda batch: past_of(session, app.name, job, planned, folder, batch, where, client),
            )  # fmt: skip
    finally:
        store.close()
