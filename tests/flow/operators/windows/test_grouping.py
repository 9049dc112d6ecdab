"""Rows of the same key come together, in the order they came in, also where different keys share a hash."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.operators.spark_hashes import shard_hashes
from headwater.flow.operators.windows.grouping import grouped

KEYS: dict[pa.DataType, list[Any]] = {
    pa.string(): [None, "", "a", "ä"],
    pa.float64(): [None, 0.0, -0.0, math.nan, 1.5],
    pa.struct({"a": pa.float64()}): [None, {"a": 0.0}, {"a": -0.0}, {"a": math.nan}],
}


@pytest.mark.parametrize("kind", KEYS, ids=str)
@given(data=st.data())
def test_groups_are_those_of_equal_keys(kind: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.sampled_from(KEYS[kind]), min_size=1, max_size=12))
    keys = pa.RecordBatch.from_pydict({"k": pa.array(values, kind)})
    shared = data.draw(st.booleans())
    hashes = np.zeros(len(values), np.int64) if shared else shard_hashes(keys.columns, len(values))
    order, firsts = grouped([hashes], keys)
    found: list[list[int]] = []
    for place, first in zip(order.tolist(), firsts.tolist(), strict=True):
        found = [*found, [place]] if first else [*found[:-1], [*found[-1], place]]
    names = [repr(value).replace("-0.0", "0.0") for value in values]
    wanted = [[place for place, one in enumerate(names) if one == name] for name in set(names)]
    assert sorted(found) == sorted(wanted)
