"""How much of rare leaks is proved: `Prover`, plain draws, best-first exploration, beam search.

    python bench/prove.py [--models demo-run/models] [--of "NPO,NPO + entropy"] [--json FILE]
                          [--budgets 250,1000,4000] [--draws 16384] [--questions 24]

The demo's models on the built-in benchmark; a leak holds every keyword of the answer. A budget is
of token positions forwarded for a question: the prompt is none of them, teacher-forced ones are.

- The prover goes out from the true answer; or from what leaks of 256 draws of the full model too;
  or of 64 draws of the model itself, right after it was shown question and answer. These draws are
  no part of the budget: what they take stands in the record of --json.
- Draws: as many as the forest makes with about the budget, by what the reference's draws cost it;
  the lower end of Clopper-Pearson at 99 %.
- Exploration: best first over likely outputs (`exact`); the mass of what surely leaks.
- Beams: the likeliest prefixes under the decoding advance a token at a time, with exact
  probabilities, and are scored at their end (after Cooper et al., arXiv 2603.24917, of whom only
  the idea is taken: no pruning by distance to the answer, as any wording with its keywords leaks).
  What ends at a beam is counted and takes no place in it. The budget sets the width: so many
  forwards, divided by the tokens of a draw or of the answer, whichever are more.

The reference is the share of --draws draws that leak; or, where that is less, the most that any
method proved of the question with any budget. Questions of which no draw leaked are told apart:
there the best method is measured against its own proof. Those count whose reference is at
least 1e-6 and above that of the control, which is its draws and the prover with the largest budget.
It is an error if anything is proved above the draws' upper Clopper-Pearson end at 1 - 1e-6.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from explore import Drawn
from leakbound import stats
from leakbound.benchmarks import Benchmark, load_benchmark
from leakbound.demo import BENCHMARK, Clock, train_models
from leakbound.engines import Prompting
from leakbound.engines.detokenizer import Detokenizer
from leakbound.engines.hf import TransformersEngine
from leakbound.engines.prefix_cache import prefix_model
from leakbound.evaluation.drawing.propose import SHOWN_DRAWS
from leakbound.sampling import PrefixModel, Settle
from leakbound.sampling.ending import Ended, Ending
from leakbound.sampling.forest import Root, Stem, forward, laws_after
from leakbound.scorers import make_scorer, score_ranges, score_texts
from leakbound.types import (
    Decoding,
    Draws,
    Effort,
    Exploration,
    JsonObject,
    Prompt,
    Proving,
    Query,
    Sample,
    Scorer,
)

SCORER = "keyword:require=all"
LEADS = 256  # draws of the full model
FROM_DRAWS, SHOWN = "prover, from draws too", "prover, shown the answer"
FROM_ANSWER = "prover, from the answer"
LEVEL, SURE = 0.99, 1 - 1e-6  # of draws as a method, and of those that proofs are held against
LEAST = 1e-6
MOST_DRAWS = 1 << 17  # of the forest for one question


@dataclass(frozen=True, slots=True)
class Case:
    """A question, and what leaks of draws of the full model, the most frequent first.

    shown: the same of the model itself, right after it was shown question and answer.
    """

    query: Query
    prompt: Prompt
    leads: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """What the reference's draws of a question show.

    sure: the upper Clopper-Pearson end at `SURE`.
    costs: (draws, forwards) of the first so many draws.
    length: tokens of a draw, or of the true answer where those are more.
    """

    hits: int
    n: int
    lower: float
    upper: float
    sure: float
    costs: tuple[tuple[int, int], ...]
    length: float


@dataclass(frozen=True, slots=True)
class Bound:
    """What a method says that a question leaks at least, and what it took.

    effort: the draws, or the width of the beam; 0 where a method has none.
    """

    model: str
    budget: int
    method: str
    question: str
    value: float
    forwards: int
    seconds: float
    effort: int = 0


@dataclass(frozen=True, slots=True)
class Beams:
    """What beams reached: (ids, whether they ended, lower bound of their mass), and forwards.

    Nothing begins with anything else of it, so that masses add up.
    """

    reached: tuple[tuple[tuple[int, ...], bool, float], ...]
    forwards: int

    def leaks(self, number: int, settle: Settle) -> float:
        """The leaking mass at least, scored at the end."""
        ranges = settle(number, [(ids, ended) for ids, ended, _ in self.reached])
        masses = (mass for *_, mass in self.reached)
        return math.fsum(mass * low for mass, (low, _) in zip(masses, ranges, strict=True))


@dataclass(frozen=True, slots=True)
class Work:
    """One model with its questions; `seen` by question, once it was drawn from."""

    name: str
    engine: TransformersEngine
    decoding: Decoding
    scorer: Scorer
    cases: tuple[Case, ...]
    seen: dict[str, Seen] = field(default_factory=dict)

    def ranges(self, query: Query, texts: Sequence[tuple[str, bool]]) -> list[tuple[float, float]]:
        prompt = next(case.prompt for case in self.cases if case.query.id == query.id)
        return score_ranges(self.scorer, texts, prompt)

    def drawn(self, draws: Draws) -> Iterator[tuple[Case, Sample]]:
        """The draws of each question, as they finish."""
        cases = {case.query.id: case for case in self.cases}
        for sample in self.engine.generate(list(self.queries), self.decoding, draws):
            assert isinstance(sample, Sample), sample
            yield cases[sample.query.id], sample

    @property
    def queries(self) -> tuple[Query, ...]:
        return tuple(case.query for case in self.cases)


Method = Callable[[Work, int], Iterator[Bound]]


def beam_search(
    model: PrefixModel,
    root: Root,
    decoding: Decoding,
    *,
    width: int,
    forwards: int,
    margin: float = 0.0,
    ended: Ended | None = None,
) -> Beams:
    """The `width` likeliest prefixes of every length that is reached with so many forwards."""
    ending = Ending.of(model, decoding, ended)
    handle, logits = model.prefill(root.token_ids)
    open_, handles, held = [Stem.prompt()], [handle], [handle]
    done: list[tuple[tuple[int, ...], bool, float]] = []
    spent = 0
    while True:
        children = []
        for part, law in laws_after(logits, open_, decoding, margin):
            ids = law.logprob.topk(min(width, model.vocab_size)).indices.tolist()
            parents = zip(open_[part], handles[part], ids, law.steps(ids), strict=True)
            for stem, at, tokens, steps in parents:
                children += [stem.child(at, *each) for each in zip(tokens, steps, strict=True)]
        children = [child for child in children if child.floor > -math.inf]
        ends = [child for child in children if ending.reason(child.path)]
        done += [(child.path, True, math.exp(child.floor)) for child in ends]
        going = [child for child in children if not ending.reason(child.path)]
        going.sort(key=lambda child: (-child.logprob, child.path))
        open_ = going[: min(width, forwards - spent)]
        if not open_:
            break
        spent += len(open_)
        new, logits = forward(model, open_)
        handles = new.tolist()
        held += handles
    done += [(child.path, False, math.exp(child.floor)) for child in going]
    model.release(np.array(held, dtype=np.int64))
    return Beams(tuple(done), spent)


def affordable(costs: Sequence[tuple[int, int]], budget: int) -> int:
    """Draws that take about so many forwards; `costs` are (draws, forwards), growing.

    The power of the draws that forwards grow by is that of the two nearest costs.
    """
    n, forwards = np.log(np.array(costs, dtype=float)).T
    at = min(max(int(np.searchsorted(forwards, math.log(budget))), 1), len(n) - 1)
    slope = max(float(forwards[at] - forwards[at - 1]) / float(n[at] - n[at - 1]), 0.2)
    draws = math.exp(float(n[at - 1]) + (math.log(budget) - float(forwards[at - 1])) / slope)
    return max(min(round(draws), MOST_DRAWS), 1)


def look(work: Work, most: int) -> None:
    """Make the reference's draws, in chunks that double."""
    sizes = [64, *(64 << i for i in range(int(math.log2(most // 64))))]
    for case, sample in work.drawn(Draws(sizes=tuple(sizes), purpose="bench:reference")):
        drawn = Drawn(sample, sizes, case.prompt, work.scorer)
        hits, n = round(drawn.rate * sample.n), sample.n
        between = stats.proportion_bound(hits, n, confidence=LEVEL, side="both")
        sure = stats.proportion_bound(hits, n, confidence=SURE, side="upper")
        answer = work.engine.loaded.tokenizer.encode(case.prompt.answer or "")
        work.seen[case.query.id] = Seen(
            hits=hits,
            n=n,
            lower=float(between.lower),
            upper=float(between.upper),
            sure=float(sure.upper),
            costs=tuple(zip(drawn.n.tolist(), drawn.forwards.tolist(), strict=True)),
            length=max(drawn.length, len(answer)),
        )


def proved(work: Work, budget: int, method: str) -> Iterator[Bound]:
    """What the prover finds from the true answer, and from the leads that the method has."""
    for case in work.cases:
        also = {FROM_DRAWS: case.leads, SHOWN: case.shown, FROM_ANSWER: ()}[method]
        leads = [case.prompt.answer or "", *also]
        started = time.perf_counter()
        asked = [(case.query, list(dict.fromkeys(leads)))]
        (found,) = work.engine.prove(asked, work.decoding, budget, work.ranges)
        assert isinstance(found, Proving), found
        pairs = zip(found.events, found.lows, strict=True)
        value = math.fsum(event.mass * low for event, low in pairs)
        spent = time.perf_counter() - started
        yield Bound(work.name, budget, method, case.query.id, value, found.forwards, spent)


def explored(work: Work, budget: int) -> Iterator[Bound]:
    """The mass of leaks among what is likeliest."""
    effort = Effort(mode="exact", forwards=budget)
    for case in work.cases:
        started = time.perf_counter()
        (found,) = work.engine.explore([case.query], work.decoding, effort, work.ranges)
        assert isinstance(found, Exploration), found
        lows = work.ranges(case.query, [(event.text, event.ended) for event in found.events])
        pairs = zip(found.events, lows, strict=True)
        value = math.fsum(event.mass * low for event, (low, _) in pairs)
        spent = time.perf_counter() - started
        yield Bound(work.name, budget, "exploration", case.query.id, value, found.forwards, spent)


def drawn(work: Work, budget: int) -> Iterator[Bound]:
    """The lower end of draws of their own that take about so many forwards."""
    sizes = {id_: affordable(seen.costs, budget) for id_, seen in work.seen.items()}
    draws = Draws(sizes=(max(sizes.values()),), purpose="bench:method", draws_per_query=sizes)
    started = time.perf_counter()
    found = [
        (case, sample, Drawn(sample, [sample.n], case.prompt, work.scorer))
        for case, sample in work.drawn(draws)
    ]
    spent = (time.perf_counter() - started) / len(found)
    for case, sample, one in found:
        n, hits = sample.n, round(one.rate * sample.n)
        bound = stats.proportion_bound(hits, n, confidence=LEVEL, side="lower")
        forwards = int(one.forwards[-1])
        yield Bound(
            *(work.name, budget, "draws (99 %)", case.query.id),
            *(float(bound.lower), forwards, spent, n),
        )


def beamed(work: Work, budget: int) -> Iterator[Bound]:
    """The mass of leaks among what beams end at."""
    loaded = work.engine.loaded
    model, _ = prefix_model(loaded.model, loaded.eos_token_ids)
    spells, stop = Detokenizer(loaded.tokenizer, loaded.eos_token_ids), work.decoding.stop

    def settle(
        number: int, items: Sequence[tuple[tuple[int, ...], bool]]
    ) -> list[tuple[float, float]]:
        texts = [((spells.text if end else spells.settled)(ids, stop), end) for ids, end in items]
        return work.ranges(work.cases[number].query, texts)

    for number, case in enumerate(work.cases):
        started = time.perf_counter()
        width = max(round(budget / work.seen[case.query.id].length), 1)
        found = beam_search(
            model,
            Root(case.query.id, work.engine.prompt_ids(case.query)),
            work.decoding,
            width=width,
            forwards=budget,
            margin=work.engine.margin,
            ended=spells.stopped(stop),
        )
        value, spent = found.leaks(number, settle), time.perf_counter() - started
        yield Bound(
            *(work.name, budget, "beams", case.query.id, value, found.forwards, spent, width)
        )


METHODS: Mapping[str, Method] = {
    FROM_DRAWS: partial(proved, method=FROM_DRAWS),
    SHOWN: partial(proved, method=SHOWN),
    FROM_ANSWER: partial(proved, method=FROM_ANSWER),
    "draws (99 %)": drawn,
    "exploration": explored,
    "beams": beamed,
}
PROOFS = frozenset(METHODS) - {"draws (99 %)"}


def require_sound(work: Work, bounds: Sequence[Bound]) -> None:
    """Stop where a proof is above what the draws allow."""
    for one in bounds:
        if one.method in PROOFS and one.value > work.seen[one.question].sure:
            raise SystemExit(f"{one} is above {work.seen[one.question]}")


def references(work: Work, bounds: Sequence[Bound]) -> dict[str, float]:
    """By question the share of draws that leak, or a greater proof."""
    found = {name: seen.hits / seen.n for name, seen in work.seen.items()}
    for one in bounds:
        if one.method in PROOFS:
            found[one.question] = max(found[one.question], one.value)
    return found


def median(values: Sequence[float], form: str) -> str:
    return format(float(np.median(values)), form) if values else "–"


def rows(work: Work, bounds: Sequence[Bound], least: Mapping[str, float]) -> Iterator[str]:
    """A row of the table for each budget and method; `least` are the control's references."""
    truth = references(work, bounds)
    counted = [name for name, value in truth.items() if value >= LEAST and value > least[name]]
    for budget in sorted({one.budget for one in bounds}):
        for method in METHODS:
            mine = {o.question: o for o in bounds if (o.budget, o.method) == (budget, method)}
            shares: dict[bool, list[float]] = {True: [], False: []}
            for name in counted:
                shares[work.seen[name].hits > 0].append(mine[name].value / truth[name])
            cells = [
                *(work.name, f"{budget:,}", method),
                *(f"{median(shares[kind], '.3f')} ({len(shares[kind])})" for kind in (True, False)),
                f"{sum(one.value >= LEAST for one in mine.values())} of {len(mine)}",
                median([one.value for one in mine.values()], ".1e"),
                median([one.forwards for one in mine.values()], ",.0f"),
                f"{np.mean([one.seconds for one in mine.values()]):.2f} s",
            ]
            yield "| " + " | ".join(cells) + " |"


def leaking_draws(work: Work, queries: Sequence[Query], n: int) -> dict[str, tuple[str, ...]]:
    """What leaks of n draws of each question, the most frequent first, by its id."""
    prompts, found = {case.query.id: case.prompt for case in work.cases}, {}
    draws = Draws(sizes=(n,), purpose="bench:leads")
    for sample in work.engine.generate(list(queries), work.decoding, draws):
        assert isinstance(sample, Sample), sample
        said = Counter[str]()
        for one in sample.completions:
            said[one.text] += one.count
        texts = [text for text, _ in sorted(said.items(), key=lambda pair: (-pair[1], pair[0]))]
        scores = score_texts(work.scorer, texts, prompts[sample.query.id])
        leads = tuple(text for text, score in zip(texts, scores, strict=True) if score)
        found[sample.query.id] = leads
    return found


def with_leads(full: Work) -> tuple[Case, ...]:
    """The questions, each with what leaks of draws of the full model."""
    found = leaking_draws(full, full.queries, LEADS)
    return tuple(replace(case, leads=found[case.query.id]) for case in full.cases)


def with_shown(work: Work) -> Work:
    """The model's questions, each with what leaks of its own draws right after the answer."""
    asked = [
        replace(case.query, examples=((case.prompt.question, case.prompt.answer or ""),))
        for case in work.cases
    ]
    before = work.engine.usage.forwards
    found = leaking_draws(work, asked, SHOWN_DRAWS)
    spent = (work.engine.usage.forwards - before) / len(asked)
    led = sum(map(bool, found.values()))
    print(
        f"{work.name}, shown the answer: {SHOWN_DRAWS} draws leak on {led} of {len(asked)} ", end=""
    )
    print(f"questions, {spent:,.0f} forwards each")
    return replace(work, cases=tuple(replace(c, shown=found[c.query.id]) for c in work.cases))


def opened(name: str, folder: Path, task: Benchmark, cases: tuple[Case, ...]) -> Work:
    engine = TransformersEngine.open(str(folder), Prompting(template=task.template), device="cpu")
    engine.measure([case.query for case in cases])
    decoding = Decoding(max_new_tokens=task.max_new_tokens)
    return Work(name, engine, decoding, make_scorer(SCORER), cases)


def record(work: Work, bounds: Sequence[Bound]) -> JsonObject:
    """All that is known of a model, for --json."""
    seen = {name: asdict(one) for name, one in work.seen.items()}
    return {"model": work.name, "seen": seen, "bounds": [asdict(one) for one in bounds]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, default=Path("demo-run/models"))
    parser.add_argument("--of", default="NPO,NPO + entropy", help="models, by their labels")
    parser.add_argument("--budgets", default="250,1000,4000", help="forwards of a question")
    parser.add_argument("--draws", type=int, default=1 << 14, help="of the reference, a question")
    parser.add_argument("--questions", type=int, default=24)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    task = load_benchmark(BENCHMARK)
    paths = train_models(options.models, task, Clock(options.models.parent / "phases.json"))
    prompts = task.prompts[: options.questions]
    cases = tuple(Case(Query.original(prompt), prompt) for prompt in prompts)
    cases = with_leads(opened("full", paths["full"], task, cases))
    budgets = sorted(map(int, options.budgets.split(",")))
    control = opened("control", paths["control"], task, cases)
    look(control, options.draws)
    own = list(proved(control, budgets[-1], FROM_DRAWS))
    require_sound(control, own)
    least = references(control, own)
    print("| model | budget | method | share, leaks drawn | share, only proved ", end="")
    print("| proved ≥ 1e-6 | median proved | forwards | a question |\n" + "|---" * 9 + "|")
    kept = [record(control, own)]
    for name in options.of.split(","):
        work = with_shown(opened(name, paths[name], task, cases))
        look(work, options.draws)
        bounds: list[Bound] = []
        for budget, method in product(budgets, METHODS.values()):
            bounds += method(work, budget)
            if options.json:
                options.json.write_text(json.dumps([*kept, record(work, bounds)], indent=1))
        require_sound(work, bounds)
        print("\n".join(rows(work, bounds, least)), flush=True)
        kept.append(record(work, bounds))


if __name__ == "__main__":
    main()
