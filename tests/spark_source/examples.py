"""Shared hypothesis strategies."""

from __future__ import annotations

from hypothesis import strategies as st

from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey

offset_values = st.integers(0, 8).map(lambda n: n * INDEX_ENTRY_BYTES)
"""Few values, so that neighbours often stand at the same offset."""

partition_keys = st.builds(
    lambda broker, topic, store, n: PartitionKey(broker, topic, store * 10_000 + n),
    st.sampled_from([1, 2, 10]),
    st.sampled_from(["a", "b-c", "ü"]),
    st.integers(0, 2),
    st.integers(0, 12),
)

offset_maps = st.dictionaries(partition_keys, offset_values, max_size=24)
