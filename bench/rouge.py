"""ROUGE-L of sampled texts: leakbound beside `rouge-score` with its stemmer.

    python bench/rouge.py [--rounds 9] [--words 45] [--vocabulary 2000] [--json FILE]

Twenty references of 38 words, 1,024 distinct texts each, made to look like draws of a
half-unlearned model: the reference with words replaced by others, frequent ones more often, then
rambling on. All values are compared once. Then the two take turns, one process, one core;
rouge-score gets every twentieth text, and its time is multiplied by twenty.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable
from itertools import accumulate

from runner import keep, options, table

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from rouge_score.rouge_scorer import RougeScorer
from rouge_score.scoring import Score

from leakbound.benchmarks import load_benchmark
from leakbound.text.rouge import Rouge, rouge_l

REFERENCES, TEXTS, SHARE = 20, 1024, 20
KEPT = 0.7
ONSETS = ("b", "br", "c", "d", "f", "g", "gr", "h", "l", "m", "n", "p", "r", "s", "st", "t", "v")
RIMES = ("a", "ar", "e", "en", "i", "ill", "o", "on", "u", "um")
ENDINGS = ("", "", "s", "ed", "ing", "er", "ly", "tion", "ness", "ment", ".", ",")

Work = dict[str, list[str]]
Seconds = tuple[float, float]  # processor, wall clock


def references() -> list[str]:
    """What is known of one author each: three sentences."""
    benchmark = load_benchmark(f"fictitious:authors={REFERENCES + 1},forget=1,questions=3")
    answers = [str(prompt.answer) for prompt in benchmark.split("retain")]
    return [" ".join(answers[i : i + 3]) for i in range(0, len(answers), 3)]


def made_up_words(number: int, rng: random.Random) -> list[str]:
    """Distinct words, with endings that the stemmer takes off."""
    words: dict[str, None] = {}
    while len(words) < number:
        syllables = [rng.choice(ONSETS) + rng.choice(RIMES) for _ in range(rng.randint(1, 3))]
        words["".join(syllables) + rng.choice(ENDINGS)] = None
    return list(words)


def sampled(reference: str, words: int, vocabulary: list[str], rng: random.Random) -> list[str]:
    """Distinct texts of about so many words; the r-th word of the vocabulary has weight 1/r."""
    weights = list(accumulate(1 / rank for rank in range(1, len(vocabulary) + 1)))
    texts: dict[str, None] = {}
    while len(texts) < TEXTS:
        known = reference.split()
        length = max(len(known), round(rng.gauss(words, words / 4)))
        others = rng.choices(vocabulary, cum_weights=weights, k=length)
        kept = [a if rng.random() < KEPT else b for a, b in zip(known, others, strict=False)]
        texts[" ".join(kept + others[len(known) :])] = None
    return list(texts)


def ours(work: Work) -> list[Rouge]:
    return [rouge_l(texts, reference) for reference, texts in work.items()]


def theirs(work: Work) -> list[Score]:
    scorer = RougeScorer(["rougeL"], use_stemmer=True)
    return [scorer.score(ref, text)["rougeL"] for ref, texts in work.items() for text in texts]


def equal(work: Work) -> bool:
    """Whether precision, recall and F1 of every pair are the same floating-point numbers."""
    got = [np.stack([part.precision, part.recall, part.f1], axis=1) for part in ours(work)]
    return np.array_equal(np.concatenate(got), np.array(theirs(work)))


def timed(measure: Callable[[Work], object], work: Work, times: int = 1) -> Seconds:
    """What `times` such pieces of work take."""
    start = time.process_time(), time.perf_counter()
    measure(work)
    return times * (time.process_time() - start[0]), times * (time.perf_counter() - start[1])


def measured(work: Work, rounds: int) -> dict[str, Seconds]:
    """Median seconds for all pairs; the first pass of leakbound on its own."""
    ours({"a word": ["a word"]})  # imports, outside the clock
    first = timed(ours, work)
    if not equal(work):
        raise SystemExit("the values differ")
    fast, slow = [], []
    for i in range(rounds):
        share = {reference: texts[i % SHARE :: SHARE] for reference, texts in work.items()}
        fast.append(timed(ours, work))
        slow.append(timed(theirs, share, SHARE))
    return {
        "rouge-score": _median(slow),
        "leakbound": _median(fast),
        "leakbound, first pass (every stem new)": first,
    }


def _median(seconds: list[Seconds]) -> Seconds:
    processor, wall = (statistics.median(column) for column in zip(*seconds, strict=True))
    return processor, wall


def main() -> None:
    args = options(__doc__, rounds=9, words=45, vocabulary=2000)
    rng = random.Random(0)
    vocabulary = made_up_words(args.vocabulary, rng)
    work = {ref: sampled(ref, args.words, vocabulary, rng) for ref in references()}
    texts = [text.split() for texts in work.values() for text in texts]
    length, distinct = sum(map(len, texts)) / len(texts), len({w for text in texts for w in text})
    seconds = measured(work, args.rounds)
    print(
        f"{len(texts):,} pairs, {length:.0f} words a text, {distinct:,} distinct words; "
        f"all values equal; medians of {args.rounds} rounds\n"
    )
    rows = [
        {"implementation": name, "cpu": cpu, "wall": wall, "pair": cpu / len(texts) * 1e6,
         "ratio": seconds["rouge-score"][0] / cpu}
        for name, (cpu, wall) in seconds.items()
    ]  # fmt: skip
    columns = {
        "implementation": "{implementation}", "CPU s": "{cpu:.3f}", "wall s": "{wall:.3f}",
        "CPU µs a pair": "{pair:.1f}", "ratio (CPU)": "{ratio:.0f}",
    }  # fmt: skip
    keep(args.json, table(rows, columns))


if __name__ == "__main__":
    main()
