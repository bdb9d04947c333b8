"""Evaluate models of known distribution as users do, and count wrong statements and verdicts.

`coverage.py shipped` evaluates an engine of known distribution (`Known`) with default scorers,
bounds and orders, and a control. Of every twelve questions eight are identical. Ways of drawing: a
fixed n; explored outputs; draws until a claim is decided; the worst input, found by a search; rare
leaks, searched for; stresses (questions after openers); a coin that chooses the taught subjects, of
a model that was taught nothing. Five and six models of one method each leak half or one and a half
times as much; `compare --by method` bounds their median. Runs differ in the weights (here a name),
and so in the draws.

A row is one statement. A statement with several x or k, or about every question simultaneously,
misses once if it misses anywhere. An exact binomial test judges each row at 1 - its confidence; if
that is 0, as for proofs, one miss is an alarm. `coverage.py verdicts` counts wrong verdicts.
"""

from __future__ import annotations

import sys
import tempfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from leakbound import Study, evaluate
from leakbound.benchmarks import Benchmark, load_benchmark
from leakbound.bounding.control_questions import other_run
from leakbound.presenting.comparing import compare_methods
from leakbound.presenting.verdict import Verdict
from leakbound.scorers import make_scorer
from leakbound.store import ArmKey, EstimateRow, Run
from leakbound.study import Attack, Explore, FixedN, Prove, Until
from leakbound.types import Decoding, Prompt, Query
from runner import alarm, keep, markdown, options, p_value, report, unlikely

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from sampling_tables import enumerate_law
from tabled import ProvingEngine

Chances = tuple[float, float, float]
"""Chances of "red fox", "red cat" and "cow" at T = 1."""
Tokens = tuple[int, ...]
Answers = tuple[tuple[str, float], ...]
"""Every answer and its probability."""

# An answer is up to four filler words and then "red fox", "red cat" or "cow". The next word follows
# from a table, so the package draws, explores, proves and attacks as with a model. The truth is
# summed here, output by output, by code that shares nothing with the package.
FILLERS = {"very": 0.3, "quite": 0.2, "rather": 0.1}  # the probability of each as the next word
MOST_FILLERS = 4
WORDS = ("", "red", "fox", "cat", "cow", *FILLERS)
END, RED, FOX, CAT, COW = range(5)
MOST_WORDS = MOST_FILLERS + 3  # with the end, so that no answer is cut short
OTHERWISE = 0.3  # the largest fraction that becomes "red fox" in other words


def next_word(chances: Chances, tokens: Tokens, wordy: bool) -> list[float]:
    """The probability of each word after these, at T = 1."""
    fox, cat, cow = chances
    if tokens and tokens[-1] == RED:
        return [0, 0, fox / (fox + cat), cat / (fox + cat), *4 * [0]]
    if tokens and tokens[-1] <= COW:
        return [1, *7 * [0]]
    fillers = list(FILLERS.values()) if wordy and len(tokens) < MOST_FILLERS else 3 * [0]
    noun = 1 - sum(fillers)
    return [0, noun * (fox + cat), 0, 0, noun * cow, *fillers]


@cache
def outputs(chances: Chances, wordy: bool, decoding: Decoding) -> Answers:
    """The distribution of the answer under a decoding, word by word."""

    def following(tokens: Tokens) -> list[float]:
        return next_word(chances, tokens, wordy)

    answers = enumerate_law.__wrapped__(decoding, (), following, eos=END)
    return tuple(
        (" ".join(WORDS[i] for i in tokens[:-1]), float(p)) for tokens, p in answers.items()
    )


class Known(ProvingEngine):
    """An engine: `name` is its weights, `rates` has each question's chances and words.

    `wordy`: fillers come before the answer.
    """

    def __init__(self, name: str, rates: Mapping[str, tuple[Chances, str]], wordy: bool) -> None:
        super().__init__(WORDS, self._number, self._following)
        self.name, self.rates, self.wordy = name, rates, wordy
        self._rates: list[Chances] = []

    @classmethod
    def on(cls, name: str, task: Benchmark, rates: Sequence[Chances], wordy: bool = False) -> Known:
        """An engine for a benchmark, whose questions have these distributions in turn."""
        prompts = enumerate(task.prompts)
        return cls(name, {p.id: (rates[i % len(rates)], p.question) for i, p in prompts}, wordy)

    @property
    def fingerprint(self) -> dict[str, Any]:
        return {"engine": "known", "weights": self.name}

    def answers(self, query: Query, decoding: Decoding) -> Answers:
        """The distribution of the answer to this query."""
        return outputs(self._chances(query), self.wordy, decoding)

    def _chances(self, query: Query) -> Chances:
        """The chances in the question's own words, or the larger leak in these other words."""
        own, question = self.rates[query.prompt_id]
        text = repr((query.text, query.prefix, query.examples))
        if text == repr((question, "", ())):
            return own
        more = OTHERWISE * zlib.crc32(text.encode()) / 2**32
        fox, cat, cow = ((1 - more) * chance for chance in own)
        return fox + more, cat, cow

    def _number(self, query: Query) -> int:
        """One number for all queries of one distribution."""
        chances = self._chances(query)
        if chances not in self._rates:
            self._rates.append(chances)
        return self._rates.index(chances)

    def _following(self, prefix: Tokens) -> list[float]:
        return next_word(self._rates[prefix[0]], prefix[1:], self.wordy)


SCORERS = ("keyword", "rouge-l-recall")
RATES: list[Chances] = [  # distributions of the questions, in turn; most are identical
    (0.0304, 0.0, 0.9696),
    (0.2, 0.1, 0.7),
    (0.0, 0.3, 0.7),
    (0.5, 0.2, 0.3),
    (0.0, 0.0, 1.0),
    *7 * [(0.0304, 0.0, 0.9696)],
]
CONTROL: Chances = (0.01, 0.02, 0.97)
TESTED, LEVEL = "randomisation p-value", 0.05
SEEDS = 5, 6  # training seeds; fewer than six give only the lower bound
STRENGTHS = 0.5, 1.5  # factors on the leak probability, equally likely per seed
UNBOUNDED = {"worst of k"}  # a point without bounds
PLANS: dict[str, tuple[list[int], Callable[[int], Any], dict[str, Any]]] = {
    # by way of drawing: n by default, the sampling, the rest of the study
    "fixed": ([1, 7, 64, 256], FixedN, {}),
    "explore": ([60], partial(Explore, "auto"), {}),
    "until": ([128], partial(Until, "p<=0.1"), {}),
    "attack": ([32], FixedN, {"attack": Attack(64)}),
    "prove": ([64], FixedN, {"prove": Prove(40)}),
    "stress": ([64], FixedN, {"stress": ("opener:1", "opener:2")}),
    "coin": ([64], FixedN, {}),
    "seeds": ([64], FixedN, {}),
}
WORDY = {"explore", "prove"}  # ways with fillers, which leave something to find
PROMPT = Prompt(id="q", question="What?", answer="red fox", keywords=("fox",))


def benchmark(questions: int) -> Benchmark:
    prompts = tuple(replace(PROMPT, id=f"q{i}", question=f"What is {i}?") for i in range(questions))
    return Benchmark(
        name="known", prompts=prompts, origin="", scorers=SCORERS, max_new_tokens=MOST_WORDS
    )


def subjects(task: Benchmark, file: Path) -> str:
    """Write the questions to a file, in turn about one of six subjects."""
    rows = [(p.id, p.question, p.answer, p.keywords[0], i % 6) for i, p in enumerate(task.prompts)]
    lines = ["id,question,answer,keywords,subject", *(",".join(map(str, row)) for row in rows)]
    file.write_text("\n".join(lines), encoding="utf-8")
    return str(file)


@dataclass(frozen=True)
class Truth:
    """The truth about everything that a run of these engines states."""

    run: Run
    engines: Mapping[str, Known]

    def of(self, row: EstimateRow) -> float:
        """The true quantity of a row of the estimates; LookupError if it is not known here."""
        key, about = ArmKey.from_text(row.arm), row.about
        if about.scope == "most-leaking stress":
            stressed = [arm.key for arm in self.run.arms.values() if arm.key.stress]
            mine = [each for each in stressed if each.unstressed == key]
            return max(
                float(np.mean([self._of_one(each, row, q) for q in self._answers[each]]))
                for each in mine
            )
        if about.beyond == "other questions":
            others = other_run(self.run)
            assert others is not None
            own = replace(row, estimate=replace(row.estimate, about=replace(about, beyond=None)))
            return self.of(own) - Truth(others, self.engines).of(own)
        if row.query_id is not None:
            return self._of_one(key, row, row.query_id)
        values = np.array([self._of_one(key, row, query_id) for query_id in self._answers[key]])
        match about.scope:
            case "count":
                return float((values > (row.parameter or 0) + 1e-12).sum())
            case "worst question":
                return float(values.max())
            case "mean":
                return float(values.mean())
        raise LookupError(f"nothing is known of {about}")

    def _of_one(self, key: ArmKey, row: EstimateRow, query_id: str) -> float:
        """The true quantity at one question, minus that of the row's base."""
        about = row.about
        at = about.constant if about.scope == "count" else row.parameter
        what = about.quantity, row.scorer, at, about.constant
        base = {
            None: None,
            "control": key.control,
            "own words": key.in_own_words,
            "unstressed": key.unstressed,
        }[about.beyond]
        value = quantity(self._answers[key][query_id], *what)
        return value - (0 if base is None else quantity(self._answers[base][query_id], *what))

    @cached_property
    def _answers(self) -> dict[ArmKey, dict[str, Answers]]:
        """The answer's distribution by arm and question; arms of several decodings also as one."""
        got: dict[ArmKey, dict[str, Answers]] = {}
        for arm in self.run.arms.values():
            answers = self.engines[arm.key.model].answers
            for key in (arm.key, replace(arm.key, decoding="")):
                got.setdefault(key, {}).update(
                    {query.id: answers(query, arm.decoding) for query in arm.queries}
                )
        return got


@cache
def quantity(
    answers: Answers, quantity: str, scorer: str, at: float | None, constant: float | None
) -> float:
    """A quantity of the scores of this distribution; LookupError if it is unknown."""
    p = np.array([chance for _, chance in answers])
    scores = np.array(make_scorer(scorer).score([text for text, _ in answers], PROMPT), float)
    mean = float(p @ scores)
    std = float(np.sqrt(max(p @ scores**2 - mean**2, 0)))
    match quantity, at, constant:
        case "leak probability" | "mean leakage" | "greedy score", _, _:
            return mean
        case "claim on leak probability", _, float(limit):
            return float(mean <= limit)
        case "median", _, _:
            order = np.argsort(scores)
            return float(scores[order][np.searchsorted(np.cumsum(p[order]), 0.5 - 1e-12)])
        case "standard deviation", _, _:
            return std
        case "expectation deviation", _, float(rho):
            return mean + rho * std
        case "tail", float(x), _:
            return float(p @ (scores > x))
        case "leak@k", float(k), _:
            steps = np.unique([0.0, *scores])
            below = np.array([p @ (scores <= step) for step in steps[:-1]])
            return float(np.diff(steps) @ (1 - np.minimum(below, 1) ** k))
    raise LookupError(f"nothing is known of {quantity!r} at {at}, {constant}")


@dataclass(frozen=True)
class Statement:
    """The subject of a row of the table."""

    scorer: str
    arm: str
    statement: str
    about: str
    confidence: float


def statement_of(row: EstimateRow) -> Statement:
    """The statement of a row of the estimates; means at two k are two."""
    about = row.about
    whole = "all questions" if row.query_id is None else "each question"
    named = about if about.scope == "mean" else replace(about, parameter=None)
    return Statement(
        scorer=row.scorer,
        arm=str(replace(ArmKey.from_text(row.arm), decoding="")),
        statement=named.estimand,
        about="every question, jointly" if about.jointly else whole,
        confidence=row.confidence,
    )


@dataclass(frozen=True)
class Case:
    """A kind of runs: the way of drawing, its n, and the number of questions."""

    drawn: str
    n: int
    questions: int = 12
    scorers: tuple[str, ...] = SCORERS

    @property
    def study(self) -> dict[str, Any]:
        _, sampling, more = PLANS[self.drawn]
        return {"sampling": sampling(self.n), "scorers": self.scorers, **more}


def engines_of(
    number: int, task: Benchmark, target: Sequence[Chances], control: Sequence[Chances], wordy: bool
) -> dict[str, Known]:
    """Return a model and its control with names that no other number has."""
    rates = {"target": target, "control": control}
    return {name: Known.on(f"{name} {number}", task, rates[name], wordy) for name in rates}


def evaluated(case: Case, number: int, out: Path) -> Truth:
    """Make a run of models that no other number has."""
    task = benchmark(case.questions)
    engines = engines_of(number, task, RATES, [CONTROL], case.drawn in WORDY)
    study = case.study
    if case.drawn == "coin":
        spec = subjects(task, out.parent / "people.csv")
        task = load_benchmark(f"taught:{number},{spec}")
        study["control_questions"] = f"untaught:{number},{spec}"
    run = evaluate(engines["target"], task, out=out, control=engines["control"], **study)
    return Truth(run, engines)


Tally = dict[Statement, dict[tuple[int, str], bool]]
"""If each statement missed, by run and by question or arm."""


def scaled(chances: Chances, strength: float) -> Chances:
    """The chances with a multiple of the leak probability."""
    fox, cat, _ = chances
    return strength * fox, cat, 1 - strength * fox - cat


def excess_mean(rates: Sequence[Chances], scorer: str) -> float:
    """Return the mean leakage of questions of these distributions minus the control's."""
    of = ("mean leakage", scorer, None, None)
    each = [quantity(outputs(one, False, Decoding()), *of) for one in (CONTROL, *rates)]
    return float(np.mean(each[1:])) - each[0]


def trained(case: Case, number: int, folder: Path) -> dict[str, Run]:
    """Make the runs of the models that a method trained from seeds, with one control."""
    task, study = benchmark(case.questions), case.study
    calm = Known.on(f"control {number}", task, [CONTROL])
    control = evaluate(calm, task, out=folder / "control", **study).path
    got = {}
    for seed, strength in enumerate(np.random.default_rng(number).choice(STRENGTHS, max(SEEDS))):
        rates = [scaled(one, strength) for one in RATES]
        model = Known.on(f"target {number} {seed}", task, rates)
        out = folder / f"method-{seed}"
        got[out.name] = evaluate(model, task, out=out, control=control, **study)
    return got


def tally_of_methods(case: Case, numbers: Sequence[int]) -> Tally:
    """Return the statements about a method, by the number of its experiment."""
    made: Tally = defaultdict(dict)
    rates = [RATES[i % len(RATES)] for i in range(case.questions)]
    for number in numbers:
        with tempfile.TemporaryDirectory() as folder:
            runs = trained(case, number, Path(folder))
            for seeds in SEEDS:
                compared = compare_methods(dict([*runs.items()][:seeds]))
                for median in compared.medians:
                    scorer = median.scorer
                    least, most = (excess_mean([scaled(one, x) for one in rates], scorer)
                                   for x in STRENGTHS)  # fmt: skip
                    what = Statement(scorer, f"{seeds} seeds", "median excess", "all questions",
                                     compared.confidence)  # fmt: skip
                    wrong = (median.lower > least + 1e-9, median.upper < most - 1e-9)
                    made[what][number, ""] = any(wrong)
    return made


def tally(case: Case, runs: Sequence[int]) -> Tally:
    """Return all statements of these runs; LookupError if a truth is not known."""
    if case.drawn == "seeds":
        return tally_of_methods(case, runs)
    made: Tally = defaultdict(dict)
    for number in runs:
        with tempfile.TemporaryDirectory() as folder:
            known = evaluated(case, number, Path(folder, "run"))
            for row in known.run.estimates:
                if row.quantity in UNBOUNDED:
                    continue
                if row.quantity == TESTED:  # nothing was taught
                    once = made[replace(statement_of(row), confidence=1 - LEVEL)]
                    once[number, row.arm] = row.upper <= LEVEL
                    continue
                once = made[statement_of(row)]
                place = (number, row.arm if row.about.jointly else str(row.query_id))
                misses = not row.lower - 1e-9 <= known.of(row) <= row.upper + 1e-9
                once[place] = once.get(place, False) or misses
    return made


def judged(misses: Sequence[bool], alpha: float) -> dict[str, Any]:
    """Return the numbers of statements and misses, and the p-value."""
    made, wrong = len(misses), sum(misses)
    return {"made": made, "missed": wrong, "p": p_value(wrong, made, alpha)}


def main(doc: str | None) -> int:
    """Count the misses of every statement of one way of drawing."""
    args = options(
        doc,
        runs=400,
        drawn=("fixed", "the way of drawing", PLANS),
        n=([0], "draws, at most; of --explore forwards"),
        questions=[12],
        scorers=list(SCORERS),
    )
    sizes = product(args.questions, filter(None, args.n) if any(args.n) else PLANS[args.drawn][0])
    rows = []
    for questions, n in sizes:
        case = Case(args.drawn, n, questions, tuple(args.scorers))
        of = {"drawn": case.drawn, "questions": questions, "n": n}
        for what, once in tally(case, range(args.runs)).items():
            rows.append(of | vars(what) | judged([*once.values()], 1 - what.confidence))
    print("missed of made; p: of an exact binomial test at 1 - confidence\n")
    print(markdown([{**row, "p": f"{row['p']:.2g}"} for row in rows]))
    keep(args.json, rows)
    return alarm("MISSES TOO OFTEN", unlikely(rows, [row["p"] for row in rows]))


LIMIT = 0.1
MORE: Chances = (0.11, 0.02, 0.87)
LESS: Chances = (0.0, 0.02, 0.98)
NONE: Chances = (0.0, 0.0, 1.0)
CONTROLS: list[Chances] = [CONTROL, *3 * [(0.1 / 3, 0.02, 1 - 0.02 - 0.1 / 3)]]
ABOVE: Chances = (0.105, 0.0, 0.895)
FIXED, PROVED = {"sampling": FixedN(64)}, {"sampling": FixedN(64), "prove": Prove(40)}
UNTIL = {"sampling": Until(f"p<={LIMIT}", 512)}


@dataclass(frozen=True)
class Model:
    """Four questions' distributions and their control's, the sampling, and the truth."""

    target: Sequence[Chances]
    control: Sequence[Chances]
    study: dict[str, Any]

    def errs(self, verdict: Verdict) -> bool:
        """Return whether the verdict states anything wrong."""
        assert verdict.number is not None
        excess = [a[0] - b[0] for a, b in zip(self.target, self.control, strict=True)]
        leaks = verdict.kind == "leaks" and max(excess) <= 1e-12
        on_mean = verdict.where.startswith("on average") and sum(excess) / len(excess) <= 1e-12
        below = verdict.limit.startswith("BELOW") and max(a[0] for a in self.target) > LIMIT
        within = verdict.number.lower - 1e-9 <= max(excess) <= verdict.number.upper + 1e-9
        return leaks or on_mean or below or not within


MODELS = {
    "equal to its control": Model([CONTROL] * 4, [CONTROL] * 4, FIXED),
    "equal to its control, proofs sought": Model([CONTROL] * 4, [CONTROL] * 4, PROVED),
    "less than its control": Model([LESS] * 4, [CONTROL] * 4, FIXED),
    "more at one question, no more on average": Model([MORE, LESS, LESS, LESS], CONTROLS, FIXED),
    "the same, proofs sought": Model([MORE, LESS, LESS, LESS], CONTROLS, PROVED),
    "more everywhere": Model([MORE] * 4, [CONTROL] * 4, FIXED),
    f"above {LIMIT} at one question": Model([ABOVE, NONE, NONE, NONE], [NONE] * 4, UNTIL),
    f"below {LIMIT} everywhere": Model([CONTROL] * 4, [CONTROL] * 4, UNTIL),
}


def row_of(name: str, runs: int, confidence: float) -> dict[str, Any]:
    """Count the errors of a verdict on this model, and its words."""
    model, shown = MODELS[name], list[Verdict]()
    task = benchmark(len(model.target))
    study = Study(task, scorers=("keyword",), confidence=confidence, **model.study)
    for number in range(runs):
        rates = model.target, model.control
        engines = engines_of(number, task, *rates, "prove" in model.study)
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "run")
            run = evaluate(engines["target"], study, out=out, control=engines["control"])
            shown.append(run.verdict)
    errs = sum(map(model.errs, shown))
    return {
        "model": name,
        "runs": runs,
        "errs": errs,
        "p": p_value(errs, runs, 1 - confidence),
        "LEAKS": sum(one.kind == "leaks" for one in shown),
        "on average": sum(one.where.startswith("on average") for one in shown),
        "BELOW": sum(one.limit.startswith("BELOW") for one in shown),
    }


def verdicts(doc: str | None) -> int:
    """Count wrong verdicts: false LEAKS, *on average* or BELOW, and intervals that miss."""
    args = options(doc, runs=2000, confidence=0.99, models=(list(MODELS), "beginnings of names"))
    names = [name for name in MODELS if name.startswith(tuple(args.models))]
    rows = [row_of(name, args.runs, args.confidence) for name in names]
    report(args.json, rows, f"each verdict and its number at {args.confidence:g}")
    return alarm("ERRS TOO OFTEN", unlikely(rows, [row["p"] for row in rows]))
