"""A Feast store with the values that `serve.py` asks for, and its feature server. It runs in Feast's own environment:
_feast_store.py FOLDER STORE KEYS PORT FEATURE...; STORE is the online store as Feast's configuration says it."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

CONFIGURATION = """
project: bench
provider: local
registry: registry.db
online_store: STORE
offline_store: {type: file}
entity_key_serialization_version: 3
"""
KEYS_AT_ONCE = 500


def main() -> None:
    """Fill the store, then become the server."""
    import numpy as np
    import pandas as pd
    from feast import Entity, FeatureStore, FeatureView, Field, FileSource, ValueType
    from feast.types import Float64

    folder, online_store, keys, port, *features = sys.argv[1:]
    Path(folder).mkdir()
    (Path(folder) / "feature_store.yaml").write_text(CONFIGURATION.replace("STORE", online_store))
    now = datetime.now(UTC)
    source = FileSource(name="past", path=f"{folder}/past.parquet", timestamp_field="t")
    chance = np.random.default_rng(1)

    def values(first: int, last: int) -> pd.DataFrame:
        columns = {name: chance.random(last - first) for name in features}
        return pd.DataFrame({"k": np.arange(first, last), "t": now, **columns})

    values(0, 1).to_parquet(f"{folder}/past.parquet")
    store = FeatureStore(repo_path=folder)
    entity = Entity(name="k", join_keys=["k"], value_type=ValueType.INT64)
    schema = [Field(name=name, dtype=Float64) for name in features]
    store.apply([entity, FeatureView(name="v", entities=[entity], ttl=timedelta(days=1), schema=schema, source=source)])
    for first in range(0, int(keys), KEYS_AT_ONCE):
        store.write_to_online_store("v", values(first, min(int(keys), first + KEYS_AT_ONCE)))
    feast = str(Path(sys.executable).with_name("feast"))
    # Otherwise it starts anew after a thousand requests.
    options = ["--no-access-log", "--max-requests", "0", "--max-requests-jitter", "0"]
    os.execv(feast, [feast, "-c", folder, "serve", "--host", "127.0.0.1", "--port", port, *options])


if __name__ == "__main__":
    main()
