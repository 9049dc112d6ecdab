"""Who buys in the shop, and what it sells (pure)."""

from decimal import Decimal
from typing import NamedTuple


class User(NamedTuple):
    id: int
    name: str
    country: str


class Product(NamedTuple):
    id: int
    title: str
    category: str
    price: Decimal


COUNTRIES = ("Austria", "Brazil", "Denmark", "France", "Ghana", "India", "Japan", "Poland", "Sweden")
NAMES = (
    "Ada", "Alan", "Barbara", "Edsger", "Frances", "Grace", "Hedy", "Jean", "John", "Katherine", "Ken", "Leslie",
    "Margaret", "Niklaus", "Radia", "Shafi", "Tim", "Tony",
)  # fmt: skip
GOODS = {
    "light": ("lamp", "lantern", "candle", "torch", "chandelier", "string of lights", "reading light"),
    "furniture": ("chair", "desk", "shelf", "sofa", "stool", "bench", "wardrobe", "bed"),
    "kitchen": ("pan", "kettle", "knife", "bowl", "whisk", "teapot", "mill"),
    "textile": ("rug", "curtain", "pillow", "blanket", "towel", "tablecloth"),
    "clock": ("alarm clock", "cuckoo clock", "hourglass", "sundial", "wall clock", "stopwatch"),
}

USERS = [
    User(number, f"{NAMES[number % len(NAMES)]} {chr(65 + number // len(NAMES))}.", COUNTRIES[number * 7 % 9])
    for number in range(1, 181)
]
PRODUCTS = [
    Product(number, title, category, Decimal(f"{9 + number * 37 % 240}.90"))
    for number, (title, category) in enumerate(
        ((title, category) for category, titles in GOODS.items() for title in titles), start=1
    )
]
QUERIES = ("light", "furniture", "lamp", "kitchen", "textile", "clock", "desk", "teapot", "hourglass", "rug")


def url_of(product: Product) -> str:
    """
    >>> url_of(PRODUCTS[0])
    '/light/lamp'
    """
    return f"/{product.category}/{product.title.replace(' ', '-')}"
