"""A small shop, end to end, on the embedded defaults: what `headwater demo` runs."""

from pathlib import Path


def shop_file() -> Path:
    """The file that declares the shop's flows.

    >>> shop_file().name
    'shop.py'
    """
    return Path(__file__).with_name("shop.py")
