"""What is the same for all batches of a job: the job and its folder, and the environment it runs in."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from headwater.clock import Clock, SystemClock
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.commit.job_identity import Identity
from headwater.flow.declare.topology.graph import Job
from headwater.flow.kafka.client import Client
from headwater.flow.plan.resolution import Resolved


@dataclass(frozen=True)
class JobContext:
    """A job of an app, resolved, with the folder that holds its checkpoint and state."""

    app: str
    job: Job
    resolved: Mapping[str, Resolved]
    """By output."""
    identity: Identity
    folder: JobFolder


@dataclass(frozen=True)
class Environment:
    """The Spark session, the log (`where`: options that say how it is reached, and limits) and the clock."""

    session: SparkSession
    client: Client
    where: Mapping[str, str]
    clock: Clock = field(default_factory=SystemClock)
