"""Seeded graphs: the same edges everywhere, and heavy tails."""

import numpy as np

from bench.cases.generators import chung_lu, rmat


def test_the_same_seed_gives_the_same_edges_and_another_seed_others():
    for generate in (lambda seed: chung_lu(500, 2000, seed=seed), lambda seed: rmat(9, 2000, seed=seed)):
        first, again, other = generate(3), generate(3), generate(4)
        assert np.array_equal(first, again)
        assert not np.array_equal(first, other)


def test_chung_lu_edges_are_distinct_without_loops_and_skewed():
    src, dst = chung_lu(2000, 10_000)
    assert len(src) == 10_000
    assert len(set(zip(src.tolist(), dst.tolist(), strict=True))) == 10_000
    assert (src != dst).all()
    assert src.min() >= 0
    assert max(src.max(), dst.max()) < 2000
    for ends in (src, dst):
        degrees = np.bincount(ends, minlength=2000)
        assert degrees.max() > 20 * degrees.mean()


def test_chung_lu_gives_what_there_is_when_asked_for_more_edges_than_exist():
    src, dst = chung_lu(4, 1000)
    assert len(src) <= 12
    assert len(set(zip(src.tolist(), dst.tolist(), strict=True))) == len(src)


def test_rmat_stays_inside_its_vertices_and_is_skewed():
    src, dst = rmat(10, 20_000)
    assert len(src) == 20_000
    assert min(src.min(), dst.min()) >= 0
    assert max(src.max(), dst.max()) < 1024
    assert np.bincount(src).max() > 10 * np.bincount(src).mean()
