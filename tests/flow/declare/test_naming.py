import re

from headwater.flow.declare.app import NAME
from headwater.flow.declare.topology.naming import accounts_topic, group_of, poisoned_topic


def test_topics_in_which_jobs_report_have_names_that_topics_may_have() -> None:
    for topic in (accounts_topic("shop"), poisoned_topic("shop", "clicks+searches")):
        assert NAME.fullmatch(topic)


def test_jobs_of_one_app_share_accounts_and_nothing_else() -> None:
    assert poisoned_topic("shop", "orders") != poisoned_topic("shop", "clicks")
    assert re.fullmatch(r"shop\.orders", group_of("shop", "orders"))
