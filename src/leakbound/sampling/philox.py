"""Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011), vectorised.

A random number is a pure function of its key (seed, purpose, query id, chunk) and its counter
(block, prefix). So it is the same at any batch size and in any order of computation. A prefix
enters the counter as a 64-bit digest that is chained over its tokens and depth. Within one query,
the probability that any two of N prefixes have equal digests is below N² / 2^65. For N = 100,000
this is 3e-10.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]  # 32-bit values held in 64 bits, so that products do not overflow

_MULTIPLIERS = np.array([[0xD2511F53], [0xCD9E8D57]], np.uint64)
_WEYL = np.array([[0x9E3779B9], [0xBB67AE85]], np.uint64)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_CHAIN_KEY = (np.array([0x52455349], np.uint64), np.array([0x44554121], np.uint64))
ROOT = (np.uint64(0), np.uint64(0))


def philox4x32(counter: tuple[Words, Words, Words, Words], key: tuple[Words, Words]) -> list[Words]:
    """Compute ten rounds on vectors of counters.

    Args:
        counter: four vectors of 32-bit words, [n] each.
        key: two words, [n] each or [1].

    Returns:
        Four vectors of 32-bit words, [n] each.
    """
    even, odd, keys = (np.stack(words) for words in (counter[::2], counter[1::2], key))
    for _ in range(10):
        products = even * _MULTIPLIERS
        even, odd = (products >> _HALF)[::-1] ^ odd ^ keys, (products & _LOW)[::-1]
        keys = (keys + _WEYL) & _LOW
    return [even[0], odd[0], even[1], odd[1]]


def stream_key(seed: int, purpose: str, query_id: str, chunk: int) -> tuple[int, int]:
    """Return the two key words of one chunk of draws of one query for one purpose.

    Args:
        seed: at least 0.
        purpose: the purpose of the draws.
        query_id: the query.
        chunk: the number of the chunk.

    Returns:
        Two 32-bit words.
    """
    text = json.dumps([seed, purpose, query_id, chunk])
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little")


def extend_prefix(
    prefix: tuple[Words, Words], tokens: NDArray[np.int64], depth: NDArray[np.int64]
) -> tuple[Words, Words]:
    """Return the digests of prefixes lengthened by one token each.

    Args:
        prefix: the digests of the prefixes, two vectors of words, [n] each.
        tokens: the token that is appended to each prefix, [n].
        depth: the number of tokens of each prefix, including this token, [n].

    Returns:
        Two vectors of words, [n] each.
    """
    counter = (tokens.astype(np.uint64), depth.astype(np.uint64), *prefix)
    low, high, _, _ = philox4x32(counter, _CHAIN_KEY)
    return low, high


def digests(paths: Sequence[tuple[int, ...]]) -> tuple[Words, Words]:
    """Return the digest of each prefix, computed from its first token.

    Args:
        paths: n prefixes.

    Returns:
        Two vectors of words, [n] each.
    """
    low, high = (np.full(len(paths), word) for word in ROOT)
    depths = np.array([len(path) for path in paths])
    for depth in range(1, int(depths.max(initial=0)) + 1):
        rows = np.flatnonzero(depths >= depth)
        tokens = np.array([path[depth - 1] for path in paths if len(path) >= depth])
        low[rows], high[rows] = extend_prefix(
            (low[rows], high[rows]), tokens, np.full(len(rows), depth)
        )
    return low, high


def uniforms(
    key: tuple[Words, Words], prefix: tuple[Words, Words], counts: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return uniform numbers in [0, 1) of 53 bits each, one stream after the other.

    Args:
        key: the key of each stream, two vectors of words, [n] each.
        prefix: the digest of each stream's prefix, two vectors of words, [n] each.
        counts: the length of each stream, [n].

    Returns:
        [sum of counts], float64.
    """
    blocks = (counts + 1) >> 1  # one block of words gives two numbers
    stream = np.repeat(np.arange(len(counts)), blocks)
    block = np.arange(len(stream)) - np.repeat(np.cumsum(blocks) - blocks, blocks)
    number = block.astype(np.uint64)
    words = philox4x32(
        (number, np.zeros_like(number), prefix[0][stream], prefix[1][stream]),
        (key[0][stream], key[1][stream]),
    )
    wanted = 2 * block[:, None] + np.arange(2) < counts[stream, None]
    pairs: Words = np.stack(words, axis=1).reshape(-1, 2)[wanted.ravel()]
    high, low = pairs[:, 0] >> np.uint64(5), pairs[:, 1] >> np.uint64(6)
    return (high.astype(np.float64) * 67108864.0 + low.astype(np.float64)) / 9007199254740992.0
