"""Names that an app's jobs go by outside of it: their consumer groups, and the topics in which they report."""


def group_of(app: str, job: str) -> str:
    """
    >>> group_of("shop", "orders")
    'shop.orders'
    """
    return f"{app}.{job}"


def poisoned_topic(app: str, job: str) -> str:
    """Where rows go that cannot be read. A topic's name has no plus.

    >>> poisoned_topic("shop", "clicks+searches")
    'shop.clicks-searches.poisoned'
    """
    return f"{app}.{job.replace('+', '-')}.poisoned"


def late_topic(app: str, job: str) -> str:
    """Where a job puts late rows, with the reason."""
    return poisoned_topic(app, job).removesuffix("poisoned") + "late"


def accounts_topic(app: str) -> str:
    """
    >>> accounts_topic("shop")
    'shop.accounts'
    """
    return f"{app}.accounts"


def alert_topics(app: str) -> tuple[str, str]:
    """Where the node notes what becomes of alerts, and whom it notified.

    >>> alert_topics("shop")
    ('shop.alerts', 'shop.deliveries')
    """
    return f"{app}.alerts", f"{app}.deliveries"
