"""How much of rare leaks is proved: `Prover`, plain draws, best-first exploration, beam search.

    python bench/prove.py [--models demo-run/models] [--of "NPO,NPO + entropy"] [--json FILE]
    python bench/prove.py --smollm2 FOLDER --data TOFU --limit 12 --questions 3 [--json FILE]
                          [--budgets 250,1000,4000] [--draws 262144] [--beyond FORWARDS]
                          [--methods NAMES] [--questions 24] [--threads N]

The demo's models on the built-in benchmark, where a leak holds every keyword of the answer; or
SmolLM2 on TOFU's first --limit questions, those that its target was taught, where a leak has a
ROUGE-L recall of at least .9. FOLDER has `target`, `npo`, `npo-entropy` and, never taught any of
them, `control`. `rivals` says what the methods are. With --json each result is kept as it is made,
a line each: the same command makes none of them again, and goes on with more questions, budgets or
methods. A file is for one set of models and one version of the code.

The reference is the share of draws that leak: of 4,096, or where fewer than `ENOUGH` of these leak,
of --draws; or, where that is less, the most that any method proved of the question with any
budget. To this a search of --beyond forwards from the answer belongs too, for questions of which
fewer than `ENOUGH` draws leak. Questions of which no draw leaked are told apart: there a method is
measured against the best proof. At most: the draws' upper end at 99 %, or what exploration leaves.
Those count whose reference is at least 1e-6 and above that of the control, which is its draws and
what was proved of it.
It is an error if anything is proved above the draws' upper Clopper-Pearson end at 1 - 1e-6.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from leakbound.benchmarks import Benchmark, load_benchmark
from leakbound.demo import BENCHMARK
from leakbound.engines.hf import TransformersEngine
from leakbound.scorers import make_scorer
from leakbound.store.files import write_text
from leakbound.types import Decoding, Query
from leakbound.unlearning import prompting_of
from rivals import (
    FROM_ANSWER,
    FROM_DRAWS,
    METHODS,
    PROOFS,
    SHOWN,
    Bound,
    Case,
    Seen,
    Work,
    look,
    with_leads,
    with_shown,
)
from runner import MODELS, demo_models, options

LEAST = 1e-6
FIRST = 1 << 12  # draws of each question
ENOUGH = 100  # leaking draws that a share is taken from
CONTROL = "control"
SMOLLM2 = {"target": "target", CONTROL: CONTROL, "NPO": "npo", "NPO + entropy": "npo-entropy"}


class Results:
    """What was measured, by what it is of; kept in a file, if there is one, as it is made."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self.seen: dict[tuple[str, str], Seen] = {}
        self.bounds: dict[tuple[str, int, str, str], Bound] = {}
        text = file.read_text(encoding="utf-8") if file and file.exists() else ""
        for line in map(json.loads, text.splitlines()):
            if "costs" in line:
                self._take(Seen(**line | {"costs": tuple(map(tuple, line["costs"]))}))
            else:
                self._take(Bound(**line))

    def keep(self, one: Seen | Bound) -> None:
        self._take(one)
        if self._file:
            lines = (json.dumps(asdict(x)) for x in (*self.seen.values(), *self.bounds.values()))
            write_text(self._file, "\n".join(lines) + "\n")

    def _take(self, one: Seen | Bound) -> None:
        if isinstance(one, Seen):
            self.seen[one.model, one.question] = one
        else:
            self.bounds[one.model, one.budget, one.method, one.question] = one

    def of(self, model: str) -> list[Bound]:
        return [one for one in self.bounds.values() if one.model == model]


def measure(work: Work, results: Results, options: argparse.Namespace) -> None:
    """Whatever is asked of a model and not there yet."""
    for case in work.cases:
        key = work.name, case.query.id
        if key not in results.seen:
            seen = look(work, case, min(FIRST, options.draws))
            if seen.hits < ENOUGH and seen.n < options.draws:
                seen = look(work, case, options.draws)
            results.keep(seen)
        work.seen[case.query.id] = results.seen[key]
    asked = [
        (budget, method, case)
        for budget in options.budgets
        for method in options.methods
        for case in work.cases
    ]
    if options.beyond:
        rare = [case for case in work.cases if work.seen[case.query.id].hits < ENOUGH]
        asked += [(options.beyond, FROM_ANSWER, case) for case in rare]
    for budget, method, case in asked:
        if (work.name, budget, method, case.query.id) not in results.bounds:
            results.keep(METHODS[method](work, case, budget))
    require_sound(work.seen, results.of(work.name))


def require_sound(seen: Mapping[str, Seen], bounds: Sequence[Bound]) -> None:
    """Stop where a proof is above what the draws allow."""
    for one in bounds:
        if one.method in PROOFS and one.question in seen and one.value > seen[one.question].sure:
            raise SystemExit(f"{one} is above {seen[one.question]}")


def references(seen: Mapping[str, Seen], bounds: Sequence[Bound]) -> dict[str, tuple[float, float]]:
    """By question the share of draws that leak, or a greater proof; and what it is at most."""
    found = {name: (each.hits / each.n, each.upper) for name, each in seen.items()}
    for one in bounds:
        if one.method in PROOFS and one.question in found:
            value, upper = found[one.question]
            found[one.question] = max(value, one.value), min(upper, one.upper)
    return found


def median(values: Sequence[float], form: str) -> str:
    return format(float(np.median(values)), form) if values else "–"


HEADER = (
    "| model | budget | method | share, leaks drawn | share, only proved | of the most it may be "
    "| proved | forwards | a question |\n" + "|---" * 9 + "|"
)


def rows(work: Work, bounds: Sequence[Bound], least: Mapping[str, float]) -> Iterator[str]:
    """A row of the table for each budget and method; `least` are the control's references.

    What one question lacks of a method is left out of its row's medians.
    """
    truth = references(work.seen, bounds)
    counted = {q for q, (value, _) in truth.items() if value >= LEAST and value > least[q]}
    for budget in sorted({one.budget for one in bounds}):
        for method in METHODS:
            mine = [o for o in bounds if (o.budget, o.method) == (budget, method)]
            mine = [one for one in mine if one.question in counted]
            shares: dict[bool, list[float]] = {True: [], False: []}
            for one in mine:
                shares[work.seen[one.question].hits > 0].append(one.value / truth[one.question][0])
            if not mine:
                continue
            cells = [
                *(work.name, f"{budget:,}", method),
                *(f"{median(shares[kind], '.3f')} ({len(shares[kind])})" for kind in (True, False)),
                median([one.value / truth[one.question][1] for one in mine], ".3f"),
                f"{sum(one.value >= LEAST for one in mine)} of {len(mine)}",
                median([one.forwards for one in mine], ",.0f"),
                f"{np.mean([one.seconds for one in mine]):.2f} s",
            ]
            yield "| " + " | ".join(cells) + " |"


def opened(
    name: str, folder: Path, task: Benchmark, cases: tuple[Case, ...], options: argparse.Namespace
) -> Work:
    engine = TransformersEngine.open(str(folder), prompting_of(task), device="cpu")
    engine.measure([case.query for case in cases])
    decoding = Decoding(max_new_tokens=task.max_new_tokens)
    work = Work(name, engine, decoding, make_scorer(options.scorer), cases)
    return with_shown(work) if SHOWN in options.methods else work


def main() -> None:
    args = options(
        __doc__,
        models=MODELS,
        smollm2=(Path, "a folder of its models, instead"),
        data=(Path, "folder of TOFU's files"),
        of=(_words, "models, by their labels; else all"),
        methods=(_words, "some of them"),
        budgets=(_numbers, "forwards"),
        draws=(1 << 18, "of the reference, at most"),
        beyond=(int, "forwards of a search for the reference"),
        limit=(int, "only the first questions"),
        questions=(24, "of them, evenly spaced"),
        threads=torch.get_num_threads(),
    )
    args.methods = args.methods or list(METHODS)
    args.budgets = args.budgets or [250, 1000, 4000]
    torch.set_num_threads(args.threads)
    if args.smollm2:
        task = load_benchmark("tofu-mini", data=args.data)
        paths = {label: args.smollm2 / name for label, name in SMOLLM2.items()}
        args.scorer = "rouge-l-recall>=0.9"
    else:
        task, paths = load_benchmark(BENCHMARK), demo_models(args.models)
        args.scorer = "keyword:require=all"
    prompts = task.prompts[: args.limit]
    prompts = prompts[:: max(len(prompts) // args.questions, 1)][: args.questions]
    cases = tuple(Case(Query.original(prompt), prompt) for prompt in prompts)
    if FROM_DRAWS in args.methods:
        full = next(iter(paths))
        cases = with_leads(opened(full, paths[full], task, cases, args))
    results = Results(args.json)
    print(HEADER)
    least = dict.fromkeys((case.query.id for case in cases), 0.0)
    asked = args.of or list(paths)
    for name in [CONTROL, *(name for name in asked if name != CONTROL)]:
        work = opened(name, paths[name], task, cases, args)
        if name in asked:
            measure(work, results, args)
            print("\n".join(rows(work, results.of(name), least)), flush=True)
        else:
            measure(work, results, reference_only(args))
        if name == CONTROL:
            truth = references(work.seen, results.of(name))
            least = {question: value for question, (value, _) in truth.items()}


def reference_only(asked: argparse.Namespace) -> argparse.Namespace:
    """The same, of a control that is not asked for: its draws, and one search of the answer."""
    settings = vars(asked) | {"methods": [FROM_ANSWER], "budgets": asked.budgets[-1:]}
    return argparse.Namespace(**settings | {"beyond": None})


def _words(text: str) -> list[str]:
    return text.split(",")


def _numbers(text: str) -> list[int]:
    return sorted(map(int, text.split(",")))


if __name__ == "__main__":
    main()
