"""What the topic of a captured table is called. Pure.

A template names topics by {capture}, {schema} and {table}; or it lists tables with their topics,
`public.users=users,public.orders=orders`, as an app does for those that share a capture. No topic's name has a =.
"""

from collections.abc import Mapping

MANY_TABLES = "{capture}.{schema}.{table}"


def listed(topics: Mapping[str, str]) -> str:
    """
    >>> listed({"public.users": "users", "public.orders": "orders"})
    'public.orders=orders,public.users=users'
    """
    return ",".join(f"{table}={topic}" for table, topic in sorted(topics.items()))


def topics_listed(template: str) -> dict[str, str]:
    """
    >>> topics_listed("public.orders=orders,public.users=users"), topics_listed("{capture}")
    ({'public.orders': 'orders', 'public.users': 'users'}, {})
    """
    if "=" not in template:
        return {}
    return {table: topic for table, _, topic in (pair.rpartition("=") for pair in template.split(","))}


def topic_of(template: str, capture: str, schema: str, name: str) -> str:
    """
    >>> topic_of("{capture}.{schema}.{table}", "shop", "public", "my users")
    'shop.public.my_users'
    >>> topic_of("users=people,public.orders=orders", "shop", "public", "users")
    'people'
    """
    topics = topics_listed(template)
    if topics:
        template = topics.get(f"{schema}.{name}") or topics.get(name) or MANY_TABLES
    filled = template.replace("{capture}", capture).replace("{schema}", schema).replace("{table}", name)
    return "".join(sign if sign.isascii() and (sign.isalnum() or sign in "._-") else "_" for sign in filled)
