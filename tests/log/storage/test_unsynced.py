from random import Random

from hypothesis import given
from hypothesis import strategies as st

from headwater.log.storage.unsynced import SECTOR_BYTES, Change, PowerCut, SimulatedContent, replay, sizes_on_the_way

CHANGES = st.lists(
    st.one_of(
        st.builds(Change, st.integers(0, 2000), st.binary(min_size=1, max_size=900)),
        st.builds(Change, st.integers(0, 2000), st.none()),
    ),
    max_size=6,
)


def sector_of(content: bytes, sector: int) -> bytes:
    return content[sector * SECTOR_BYTES : (sector + 1) * SECTOR_BYTES].ljust(SECTOR_BYTES, b"\0")


@given(st.binary(max_size=2000), CHANGES, st.integers(0, 2**32))
def test_each_sector_found_is_one_of_its_versions_or_zeros_where_the_file_had_grown(
    durable: bytes, changes: list[Change], seed: int
) -> None:
    found = PowerCut(Random(seed)).content(durable, changes)
    versions = [replay(durable, changes[:count]) for count in range(len(changes) + 1)]
    for sector in range(-(-len(found) // SECTOR_BYTES)):
        allowed = {sector_of(version, sector) for version in versions}
        allowed |= {bytes(SECTOR_BYTES)} if sector * SECTOR_BYTES >= len(durable) else set()
        cut = len(found) - sector * SECTOR_BYTES
        assert sector_of(found, sector)[:cut] in {version[:cut] for version in allowed}


@given(st.binary(max_size=2000), CHANGES, st.integers(0, 2**32))
def test_the_size_found_lies_on_the_way(durable: bytes, changes: list[Change], seed: int) -> None:
    sizes = sizes_on_the_way(len(durable), changes)
    assert min(sizes) <= len(PowerCut(Random(seed)).content(durable, changes)) <= max(sizes)


@given(CHANGES, CHANGES, st.integers(0, 2**32))
def test_a_sync_after_a_failed_one_writes_only_what_changed_since(
    before: list[Change], after: list[Change], seed: int
) -> None:
    content = SimulatedContent(0)
    make(content, before)
    content.lose_sync(PowerCut(Random(seed)))
    lost = content.durable
    make(content, after)
    content.sync(len(content.pending))
    assert len(content.durable) == len(content.data)
    for sector in range(-(-len(content.data) // SECTOR_BYTES)):
        assert sector_of(content.durable, sector) in {
            sector_of(bytes(content.data), sector),
            sector_of(lost[: len(content.data)], sector),
        }


def make(content: SimulatedContent, changes: list[Change]) -> None:
    for change in changes:
        if change.data is None:
            content.truncate(change.position)
        else:
            content.write(change.position, change.data)
