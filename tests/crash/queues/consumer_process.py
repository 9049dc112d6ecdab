"""A share consumer to be killed. It says what it is about to do and what it was answered, a line each.

python -m tests.crash.queues.consumer_process BOOTSTRAP GROUP TOPIC SEED

    got OFFSET DELIVERIES TIME     a message came
    say OFFSET KIND TIME           its acknowledgement is about to be sent
    done OFFSET CODE               and was answered, with a code that is 0 if it is durable
"""

import sys
import time
from random import Random

from confluent_kafka import AcknowledgeType, KafkaException, ShareConsumer

from tests.crash.load import PATIENCE

COMMIT_SECONDS = 10.0


def say(*words: object) -> None:
    print(*words, flush=True)


def main(bootstrap: str, group: str, topic: str, seed: str) -> None:
    random = Random(int(seed))
    settings = {name: value for name, value in PATIENCE.items() if name != "allow.auto.create.topics"}
    settings |= {"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": "explicit"}
    consumer = ShareConsumer(settings)
    consumer.subscribe([topic])
    while True:
        messages = [one for one in consumer.poll(0.2) if one.error() is None]
        for one in messages:
            say("got", one.offset(), one.delivery_count(), time.monotonic())
        for one in messages:
            kind = random.choices(("ACCEPT", "RELEASE", "REJECT"), (20, 2, 1))[0]
            say("say", one.offset(), kind, time.monotonic())
            consumer.acknowledge(one, getattr(AcknowledgeType, kind))
        if messages:
            codes = committed(consumer)
            for one in messages:
                say("done", one.offset(), codes.get(one.partition() or 0, -1))


def committed(consumer: ShareConsumer) -> dict[int, int]:
    try:
        outcome = consumer.commit_sync(COMMIT_SECONDS)
    except KafkaException:
        return {}
    return {where.partition: 0 if error is None else error.args[0].code() for where, error in outcome.items()}


if __name__ == "__main__":
    main(*sys.argv[1:])
