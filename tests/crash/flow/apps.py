"""The apps that are killed, by name."""

from collections.abc import Sequence

import headwater as hw
from tests.crash.flow import oracle, shop, tables, tables_oracle, times, times_oracle
from tests.crash.flow.feeding import Fed
from tests.crash.flow.oracle import Place

PROVED = {shop.APP: shop.VIEWS, times.APP: (times.CENTRES, times.RISES), tables.APP: tables.VIEWS}
"""Views that `headwater verify` computes again, by app. Of the others of times plain Python says all."""
ROWS_PER_BATCH = {tables.APP: 8}
"""Of what is fed, little is for tables alone."""
CHANGELOGS = (*shop.CHANGELOGS, *times.CHANGELOGS, *tables.CHANGELOGS)


def declared(app: str, place: Place, least: int = shop.LEAST[0]) -> hw.App:
    if app == times.APP:
        return times.declare(place.store)
    if app == tables.APP:
        return tables.declare(place.store)
    return shop.declare(place.store, place.files, least=least)


def differences(app: str, place: Place, fed: Sequence[Fed], least: int) -> list[str]:
    """What is wrong with what an app has left behind, in sentences."""
    if app == times.APP:
        return times_oracle.differences(place, fed)
    if app == tables.APP:
        return tables_oracle.differences(place, fed)
    return oracle.differences(place, fed, least=least)
