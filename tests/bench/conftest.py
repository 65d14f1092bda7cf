"""Small TPC-H tables."""

from __future__ import annotations

import pytest

from bench.cases.tpch import tables as tpch


@pytest.fixture(scope="session")
def tpch_folder(tmp_path_factory):
    if tpch.generator() is None:
        pytest.skip("tpchgen-cli is not installed: pip install 'crown-ivm[bench]'")
    return tpch.prepare(tmp_path_factory.mktemp("tpch"), 0.002)
