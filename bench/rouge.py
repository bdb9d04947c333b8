"""ROUGE-L of sampled texts: residua against `rouge-score`, the same work, every value compared.

    python bench/rouge.py [--rounds 3] [--words 60]

Twenty references, 1,024 distinct texts each, made to look like draws of a half-unlearned model:
the reference with words replaced, then rambling on. The two take turns; medians are printed.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable

import numpy as np
from rouge_score.rouge_scorer import RougeScorer

from residua.benchmarks import load_benchmark
from residua.text.rouge import rouge_l

REFERENCES = 20
TEXTS = 1024
Values = list[tuple[float, float, float]]


def references() -> list[str]:
    """What is known of one author each: three sentences, about forty words."""
    benchmark = load_benchmark(f"fictitious:authors={REFERENCES + 1},forget=1,questions=3")
    answers = [str(prompt.answer) for prompt in benchmark.split("retain")]
    return [" ".join(answers[i : i + 3]) for i in range(0, len(answers), 3)]


def sampled(reference: str, words: int, rng: random.Random, vocabulary: list[str]) -> list[str]:
    """Distinct texts of about so many words, of which the reference's are right or replaced."""
    known = reference.split()
    texts: dict[str, None] = {}
    while len(texts) < TEXTS:
        said = [w if rng.random() < 0.7 else rng.choice(vocabulary) for w in known]
        more = max(0, round(rng.gauss(words, words / 4)) - len(said))
        texts[" ".join(said + rng.choices(vocabulary, k=more))] = None
    return list(texts)


def ours(work: dict[str, list[str]]) -> Values:
    values: Values = []
    for reference, texts in work.items():
        got = rouge_l(texts, reference)
        values += zip(got.precision.tolist(), got.recall.tolist(), got.f1.tolist(), strict=True)
    return values


def theirs(work: dict[str, list[str]]) -> Values:
    scorer = RougeScorer(["rougeL"], use_stemmer=True)
    scores = [scorer.score(ref, text)["rougeL"] for ref, texts in work.items() for text in texts]
    return [(score.precision, score.recall, score.fmeasure) for score in scores]


def timed(
    measure: Callable[[dict[str, list[str]]], Values], work: dict[str, list[str]]
) -> tuple[float, Values]:
    start = time.perf_counter()
    values = measure(work)
    return time.perf_counter() - start, values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--words", type=int, default=60)
    options = parser.parse_args()
    rng = random.Random(0)
    known = references()
    vocabulary = " ".join(known).split()
    work = {ref: sampled(ref, options.words, rng, vocabulary) for ref in known}
    pairs = sum(map(len, work.values()))
    timed(ours, {known[0]: work[known[0]][:1]})  # imports, outside the clock
    seconds: dict[str, list[float]] = {"residua": [], "rouge-score": []}
    for _ in range(options.rounds):
        fast, got = timed(ours, work)
        slow, want = timed(theirs, work)
        if got != want:
            raise SystemExit("the values differ")
        seconds["residua"].append(fast)
        seconds["rouge-score"].append(slow)
    medians = {name: float(np.median(times)) for name, times in seconds.items()}
    words = sum(len(text.split()) for texts in work.values() for text in texts) / pairs
    print(f"{pairs} pairs, {words:.0f} words a text, all values equal, {options.rounds} rounds\n")
    print("| implementation | seconds (median) | µs a pair |\n|---|---|---|")
    for name, median in medians.items():
        print(f"| {name} | {median:.3f} | {median / pairs * 1e6:.1f} |")
    print(f"\nratio {medians['rouge-score'] / medians['residua']:.0f}")


if __name__ == "__main__":
    main()
