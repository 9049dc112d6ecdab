"""The apps that are killed, by name."""

from collections.abc import Sequence

import headwater as hw
from tests.crash.flow import oracle, shop, times, times_oracle
from tests.crash.flow.feeding import Fed
from tests.crash.flow.oracle import Place

PROVED = {shop.APP: shop.VIEWS, times.APP: (times.CENTRES,)}
"""Views that `headwater verify` computes again, by app. Of the others of times plain Python says all."""
CHANGELOGS = (*shop.CHANGELOGS, *times.CHANGELOGS)


def declared(app: str, place: Place, least: int = shop.LEAST[0]) -> hw.App:
    if app == times.APP:
        return times.declare(place.store)
    return shop.declare(place.store, place.files, least=least)


def differences(app: str, place: Place, fed: Sequence[Fed], least: int) -> list[str]:
    """What is wrong with what an app has left behind, in sentences."""
    if app == times.APP:
        return times_oracle.differences(place, fed)
    return oracle.differences(place, fed, least=least)
