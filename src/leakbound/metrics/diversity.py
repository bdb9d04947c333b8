"""Measure repetition among the draws for one question.

Self-BLEU is from Zhu et al. (2018), "Texygen". Each draw is compared with all other draws,
including its copies. So a model that always gives the same text has the value 1.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping

from leakbound.errors import InputError

ORDERS = 4
_Grams = Counter[tuple[str, ...]]

# Tokenisation of mteval-v13a, the default of sacrebleu.
_JOINED = (("<skipped>", ""), ("-\n", ""), ("\n", " "))
_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
_APART = (
    (re.compile(r"([{-~\[-` -&(-+:-@/])"), r" \1 "),
    (re.compile(r"([^0-9])([.,])"), r"\1 \2 "),
    (re.compile(r"([.,])([^0-9])"), r" \1 \2"),
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),
)


def self_bleu(draws: Mapping[str, int]) -> float:
    """Return the mean BLEU-4 of each draw against all others, in [0, 1]; 1 if all are equal.

    `draws` has the number of draws of each text, at least 1. Every BLEU is a hundredth of
    sacrebleu's `sentence_bleu` with its defaults: 13a tokens, exponential smoothing, effective
    order. The BLEU of a draw without words is 1 if another draw also has no words, else 0. Raises
    InputError for fewer than two draws.
    """
    number = sum(draws.values())
    if number < 2:
        raise InputError(f"Self-BLEU needs at least 2 draws, got {number}. Increase `n`.")
    words = {text: _words(text) for text in draws}
    grams = {text: [_grams(words[text], order) for order in range(1, ORDERS + 1)] for text in draws}
    highest = _two_highest(grams, draws)
    lengths: Counter[int] = Counter()
    for text, count in draws.items():
        lengths[len(words[text])] += count
    total = 0.0
    for text, count in draws.items():
        closest = _closest(len(words[text]), lengths)
        total += count * _bleu(grams[text], highest, len(words[text]), closest)
    return total / number


def distinct_share(draws: Mapping[str, int]) -> float:
    """Return the number of distinct texts divided by the number of draws, in (0, 1]."""
    return len(draws) / sum(draws.values())


def _words(text: str) -> list[str]:
    for old, new in _JOINED + (_ENTITIES if "&" in text else ()):
        text = text.replace(old, new)
    text = f" {text} "
    for pattern, spaced in _APART:
        text = pattern.sub(spaced, text)
    return text.split()


def _grams(words: list[str], order: int) -> _Grams:
    return Counter(zip(*(words[start:] for start in range(order)), strict=False))


def _two_highest(
    grams: dict[str, list[_Grams]], draws: Mapping[str, int]
) -> dict[tuple[str, ...], tuple[int, int]]:
    """Return the two largest counts of every n-gram in any draw.

    BLEU compares a draw with the largest count among the other draws. For the draw that has the
    largest count itself, this is the second largest count.
    """
    highest: dict[tuple[str, ...], tuple[int, int]] = {}
    for text, by_order in grams.items():
        copied = draws[text] > 1
        for counted in by_order:
            for gram, times in counted.items():
                first, second = highest.get(gram, (0, 0))
                if times > first:
                    highest[gram] = (times, times if copied else first)
                elif times > second:
                    highest[gram] = (first, times)
    return highest


def _closest(length: int, lengths: Counter[int]) -> int:
    """Return the nearest length of another draw to `length`; in a tie, the smaller length."""
    others = [other for other, count in lengths.items() if count > (other == length)]
    return min(others, key=lambda other: (abs(other - length), other))


def _bleu(
    grams: list[_Grams], highest: dict[tuple[str, ...], tuple[int, int]], length: int, closest: int
) -> float:
    """Return the BLEU of one draw; `closest` is the nearest length of another draw."""
    if length == 0:
        return float(closest == 0)
    logs, smoothing, any_shared = [], 1.0, False
    for counted in grams[:length]:
        shared = sum(
            min(times, highest[gram][times == highest[gram][0]]) for gram, times in counted.items()
        )
        any_shared = any_shared or shared > 0
        if not shared:
            smoothing *= 2
        logs.append(math.log((shared or 1 / smoothing) / counted.total()))
    if not any_shared:
        return 0.0
    return math.exp(min(0.0, 1 - closest / length) + sum(logs) / len(logs))
