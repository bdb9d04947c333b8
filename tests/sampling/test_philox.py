"""Philox against Random123's known answers, and its streams against each other."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from leakbound.sampling import philox


def words(*values: int) -> tuple[philox.Words, ...]:
    return tuple(np.array([v], dtype=np.uint64) for v in values)


@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [
        (
            (0, 0, 0, 0),
            (0, 0),
            (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
        ),
        (
            (0xFFFFFFFF,) * 4,
            (0xFFFFFFFF,) * 2,
            (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        ),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_known_answers(
    counter: tuple[int, ...], key: tuple[int, ...], answer: tuple[int, ...]
) -> None:
    out = philox.philox4x32(words(*counter), words(*key))  # type: ignore[arg-type]
    assert tuple(int(w[0]) for w in out) == answer


def test_streams_do_not_depend_on_their_neighbours() -> None:
    key, other = words(1, 2), words(3, 4)
    root = words(0, 0)
    both = philox.uniforms(
        (np.concatenate([key[0], other[0]]), np.concatenate([key[1], other[1]])),
        (np.zeros(2, np.uint64), np.zeros(2, np.uint64)),
        np.array([5, 3]),
    )
    alone = philox.uniforms(key, root, np.array([5]))  # type: ignore[arg-type]
    longer = philox.uniforms(key, root, np.array([9]))  # type: ignore[arg-type]
    assert np.array_equal(both[:5], alone)
    assert np.array_equal(longer[:5], alone)
    assert not np.isin(both[5:], longer).any()


def test_uniforms_are_uniform() -> None:
    u = philox.uniforms(words(7, 8), words(9, 10), np.array([200_000]))  # type: ignore[arg-type]
    assert u.min() >= 0
    assert u.max() < 1
    assert stats.kstest(u, "uniform").pvalue > 1e-3
    assert stats.kstest((u * 2**30) % 1, "uniform").pvalue > 1e-3  # the low bits too
    assert len(np.unique(u)) == len(u)


def test_keys_differ_by_each_of_their_parts() -> None:
    base = (0, "score", "q", 0)
    others = [
        (1, "score", "q", 0),
        (0, "pilot", "q", 0),
        (0, "score", "r", 0),
        (0, "score", "q", 1),
    ]
    keys = {philox.stream_key(*k) for k in (base, *others)}
    assert len(keys) == 5
    assert philox.stream_key(*base) == philox.stream_key(*base)


def test_prefixes_of_other_tokens_or_order_have_other_digests() -> None:
    def digest(path: tuple[int, ...]) -> tuple[int, int]:
        at = words(0, 0)
        for depth, token in enumerate(path, 1):
            at = philox.extend_prefix(at, np.array([token]), np.array([depth]))  # type: ignore[assignment]
        return int(at[0][0]), int(at[1][0])

    paths = [(), (0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0)]
    assert len({digest(p) for p in paths}) == len(paths)


def test_a_seed_keeps_its_draws_from_version_to_version() -> None:
    """Recorded once: with other numbers, no stored run could be gone on with."""
    key = philox.stream_key(7, "score:target", "q1", 2)
    assert key == (0xD893008B, 0xDE622532)
    prefix = words(0, 0)
    for depth, token in enumerate((5, 0, 31999), 1):
        prefix = philox.extend_prefix(prefix, np.array([token]), np.array([depth]))  # type: ignore[arg-type,assignment]
    assert [int(word[0]) for word in prefix] == [0x565EC5B9, 0xABED10DD]
    u = philox.uniforms(words(*key), prefix, np.array([3]))  # type: ignore[arg-type]
    assert u.tolist() == [0.4142458850274181, 0.12302904459978492, 0.01211714851517487]
