"""Ways to bound a rare leak from below, each for one question and a budget of forwards.

A budget is of token positions forwarded for a question: the prompt is none of them, teacher-forced
ones are. `METHODS` has them by name:

- The prover goes out from the true answer; or from what leaks of 256 draws of the full model too;
  or of 64 draws of the model itself, right after it was shown question and answer. These draws are
  no part of the budget.
- Draws: as many as the forest makes with about the budget, by what the reference's draws cost it;
  the lower end of Clopper-Pearson at 99 %.
- Exploration: best first over likely outputs (`exact`); the mass of what surely leaks.
- Beams (`beams`): 20 wide, within the budget; or as wide as it allows, which is so many forwards
  divided by the tokens of a draw or of the answer, whichever are more. After Cooper et al., arXiv
  2603.24917, of whom the idea and the width of 20 are taken. Their pruning by distance to the
  answer is not: any wording that scores as a leak is one. What ends at a beam is counted and takes
  no place in it; what is cut off is counted where it is settled. Their masses are exact.
- Draws and beams in its time: as many, and as wide, as take at least the CPU time of the prover
  from the answer with the budget, which is measured just before. Both double until they do, and
  the last counts alone, so they have up to twice its time.

Seconds are CPU seconds of one process, scoring included.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import repeat

import numpy as np

from explore import Drawn
from leakbound import stats
from leakbound.engines.branching import prefix_model
from leakbound.engines.hf import TransformersEngine
from leakbound.engines.tokens import Detokenizer
from leakbound.sampling import PrefixModel, Settle
from leakbound.sampling.candidates import Brood, Candidate
from leakbound.sampling.model import Ended, Ending
from leakbound.sampling.stems import Ints, Root, forward, laws_after
from leakbound.scorers import score_ranges, score_texts
from leakbound.types import (
    Decoding,
    Draws,
    Effort,
    Event,
    Exploration,
    Finish,
    Prompt,
    Proving,
    Query,
    Sample,
    Scorer,
)

LEADS = 256  # draws of the full model
WIDTH = 20
FROM_ANSWER = "prover from the answer"
FROM_DRAWS, SHOWN = "prover from draws too", "prover shown the answer"
DRAWN = "draws (99 %)"
DRAWN_LONG, BEAMED_LONG = "draws (99 %) in its time", "beams in its time"
SHOWN_DRAWS = 64  # of a question, of the model that is shown the answer
LEVEL, SURE = 0.99, 1 - 1e-6  # of draws as a method, and of those that proofs are held against
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

    model: str
    question: str
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

    upper: what it proves that the question leaks at most; 1 where it proves nothing.
    effort: the draws, or the width of the beam; 0 where a method has none.
    """

    model: str
    budget: int
    method: str
    question: str
    value: float
    forwards: int
    seconds: float
    upper: float = 1.0
    effort: int = 0


@dataclass(frozen=True, slots=True)
class Work:
    """One model with its questions; `seen` by question, once it was drawn from."""

    name: str
    engine: TransformersEngine
    decoding: Decoding
    scorer: Scorer
    cases: tuple[Case, ...]
    seen: dict[str, Seen] = field(default_factory=dict)

    def ranges(self, query: Query, events: Sequence[Event]) -> list[tuple[float, float]]:
        prompt = next(case.prompt for case in self.cases if case.query.id == query.id)
        return score_ranges(self.scorer, events, prompt, self.decoding.stop)

    def drawn(self, query: Query, draws: Draws) -> Sample:
        """Draws of a question."""
        (sample,) = self.engine.generate([query], self.decoding, draws)
        assert isinstance(sample, Sample), sample
        return sample


Method = Callable[[Work, Case, int], Bound]


def affordable(costs: Sequence[tuple[int, int]], budget: int) -> int:
    """Draws that take about so many forwards; `costs` are (draws, forwards), growing.

    The power of the draws that forwards grow by is that of the two nearest costs.
    """
    n, forwards = np.log(np.array(costs, dtype=float)).T
    at = min(max(int(np.searchsorted(forwards, math.log(budget))), 1), len(n) - 1)
    slope = max(float(forwards[at] - forwards[at - 1]) / float(n[at] - n[at - 1]), 0.2)
    draws = math.exp(float(n[at - 1]) + (math.log(budget) - float(forwards[at - 1])) / slope)
    return max(min(round(draws), MOST_DRAWS), 1)


def look(work: Work, case: Case, most: int) -> Seen:
    """Draw from a question for its reference, in chunks that double."""
    sizes = [64, *(64 << i for i in range(int(math.log2(most // 64))))]
    draws = Draws(sizes=tuple(sizes), purpose="bench:reference")
    sample = work.drawn(case.query, draws)
    drawn = Drawn(sample, sizes, case.prompt, work.scorer)
    hits, n = round(drawn.rate * sample.n), sample.n
    between = stats.proportion_bound(hits, n, confidence=LEVEL, side="both")
    sure = stats.proportion_bound(hits, n, confidence=SURE, side="upper")
    answer = work.engine.loaded.tokenizer.encode(case.prompt.answer or "")
    return Seen(
        model=work.name,
        question=case.query.id,
        hits=hits,
        n=n,
        lower=float(between.lower),
        upper=float(between.upper),
        sure=float(sure.upper),
        costs=tuple(zip(drawn.n.tolist(), drawn.forwards.tolist(), strict=True)),
        length=max(drawn.length, len(answer)),
    )


def proved(work: Work, case: Case, budget: int, method: str = FROM_ANSWER) -> Bound:
    """What the prover finds from the true answer, and from the leads that the method has."""
    also = {FROM_DRAWS: case.leads, SHOWN: case.shown, FROM_ANSWER: ()}[method]
    leads = [case.prompt.answer or "", *also]
    started = time.process_time()
    asked = [(case.query, list(dict.fromkeys(leads)))]
    (found,) = work.engine.prove(asked, work.decoding, budget, work.ranges)
    assert isinstance(found, Proving), found
    pairs = zip(found.events, found.lows, strict=True)
    value = math.fsum(event.mass * low for event, low in pairs)
    spent = time.process_time() - started
    return Bound(work.name, budget, method, case.query.id, value, found.forwards, spent)


def explored(work: Work, case: Case, budget: int) -> Bound:
    """The mass of leaks among what is likeliest, and all that does not surely not leak."""
    effort = Effort(mode="exact", forwards=budget)
    started = time.process_time()
    (found,) = work.engine.explore([case.query], work.decoding, effort, work.ranges)
    assert isinstance(found, Exploration), found
    ranges = work.ranges(case.query, found.events)
    pairs = list(zip(found.events, ranges, strict=True))
    value = math.fsum(event.mass * low for event, (low, _) in pairs)
    upper = 1 - math.fsum(event.mass * (1 - high) for event, (_, high) in pairs)
    spent = time.process_time() - started
    return Bound(
        *(work.name, budget, "exploration", case.query.id, value, found.forwards, spent, upper)
    )


def drawn(work: Work, case: Case, budget: int) -> Bound:
    """The lower end of draws of their own that take about so many forwards."""
    return drawn_often(work, case, affordable(work.seen[case.query.id].costs, budget), budget)


def drawn_often(work: Work, case: Case, n: int, budget: int = 0) -> Bound:
    """The lower end of so many draws."""
    started, before = time.process_time(), work.engine.usage.forwards
    completions = work.drawn(case.query, Draws(sizes=(n,), purpose="bench:method")).completions
    scores = score_texts(work.scorer, [one.answer for one in completions], case.prompt)
    hits = sum(one.count for one, score in zip(completions, scores, strict=True) if score)
    bound = stats.proportion_bound(hits, n, confidence=LEVEL, side="lower")
    value, spent = float(bound.lower), time.process_time() - started
    forwards = work.engine.usage.forwards - before
    return Bound(work.name, budget, DRAWN, case.query.id, value, forwards, spent, effort=n)


def beamed(work: Work, case: Case, budget: int, width: int | None = None) -> Bound:
    """The mass of leaks among what beams end at; without a width, the budget sets it."""
    loaded, stop = work.engine.loaded, work.decoding.stop
    model, _ = prefix_model(loaded.model, loaded.eos_token_ids)
    spells = Detokenizer(loaded.tokenizer, loaded.eos_token_ids)

    def settle(
        number: int, items: Sequence[tuple[tuple[int, ...], Finish | None]]
    ) -> list[tuple[float, float]]:
        events = [
            Event(answer=answer, thought=thought, finish=end or "unknown", token_ids=ids,
                  ended=end is not None)
            for ids, end in items
            for thought, answer in [(spells.parts if end else spells.settled)(ids, stop)]
        ]  # fmt: skip
        return work.ranges(case.query, events)

    started = time.process_time()
    wide = width or max(round(budget / work.seen[case.query.id].length), 1)
    found = beam_search(
        model,
        Root(case.query.id, work.engine.prompt_ids(case.query)),
        work.decoding,
        width=wide,
        forwards=budget,
        margin=work.engine.margin,
        ended=spells.stopped(stop),
    )
    value, spent = found.leaks(0, settle), time.process_time() - started
    method = "beams" if width is None else f"beams {width} wide"
    return Bound(
        *(work.name, budget, method, case.query.id, value, found.forwards, spent), effort=wide
    )


def in_its_time(
    work: Work, case: Case, budget: int, *, name: str, once: Callable[[Work, Case, int], Bound]
) -> Bound:
    """What a rival shows in the prover's CPU time: `once` with an effort that doubles till then."""
    least, effort = proved(work, case, budget).seconds, 1
    while (found := once(work, case, effort)).seconds < least and effort < MOST_DRAWS:
        effort *= 2
    return replace(found, budget=budget, method=name)


METHODS: Mapping[str, Method] = {
    FROM_ANSWER: proved,
    FROM_DRAWS: partial(proved, method=FROM_DRAWS),
    SHOWN: partial(proved, method=SHOWN),
    DRAWN: drawn,
    "exploration": explored,
    f"beams {WIDTH} wide": partial(beamed, width=WIDTH),
    "beams": beamed,
    DRAWN_LONG: partial(in_its_time, name=DRAWN_LONG, once=drawn_often),
    BEAMED_LONG: partial(
        in_its_time,
        name=BEAMED_LONG,
        once=lambda work, case, width: beamed(work, case, 1 << 40, width),
    ),
}
PROOFS = frozenset(METHODS) - {DRAWN, DRAWN_LONG}


def leaking_draws(
    work: Work, asked: Sequence[tuple[Query, Prompt]], n: int
) -> Iterator[tuple[str, ...]]:
    """What leaks of n draws of each question, the most frequent first."""
    for query, prompt in asked:
        said = Counter[str]()
        for one in work.drawn(query, Draws(sizes=(n,), purpose="bench:leads")).completions:
            said[one.answer] += one.count
        texts = [text for text, _ in sorted(said.items(), key=lambda pair: (-pair[1], pair[0]))]
        scores = score_texts(work.scorer, texts, prompt)
        yield tuple(text for text, score in zip(texts, scores, strict=True) if score)


def with_leads(full: Work) -> tuple[Case, ...]:
    """The questions, each with what leaks of draws of the full model."""
    found = leaking_draws(full, [(case.query, case.prompt) for case in full.cases], LEADS)
    return tuple(replace(case, leads=one) for case, one in zip(full.cases, found, strict=True))


def with_shown(work: Work) -> Work:
    """The model's questions, each with what leaks of its own draws right after the answer."""
    asked = [
        (replace(c.query, examples=((c.prompt.question, c.prompt.answer or ""),)), c.prompt)
        for c in work.cases
    ]
    before = work.engine.usage.forwards
    found = list(leaking_draws(work, asked, SHOWN_DRAWS))
    spent = (work.engine.usage.forwards - before) / len(asked)
    led = sum(map(bool, found))
    print(
        f"{work.name}, shown the answer: {SHOWN_DRAWS} draws leak on {led} of {len(asked)} ", end=""
    )
    print(f"questions, {spent:,.0f} forwards each")
    pairs = zip(work.cases, found, strict=True)
    return replace(work, cases=tuple(replace(case, shown=one) for case, one in pairs))


@dataclass(frozen=True, slots=True)
class Beams:
    """What beams reached: (ids, whether they ended, lower bound of their mass), and forwards.

    Nothing begins with anything else of it, so that masses add up.
    """

    reached: tuple[tuple[tuple[int, ...], bool, float], ...]
    forwards: int

    def leaks(self, number: int, settle: Settle) -> float:
        """The leaking mass at least, scored at the end."""
        ranges = settle(
            number, [(ids, "stop" if ended else None) for ids, ended, _ in self.reached]
        )
        masses = (mass for *_, mass in self.reached)
        return math.fsum(mass * low for mass, (low, _) in zip(masses, ranges, strict=True))


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
    (handle,), logits = model.prefill([root.token_ids])
    zero = np.zeros(1, dtype=np.int64)
    start = Brood((), (-1,), zero, zero, np.zeros((4, 1)), zero, zero, zero > 0)
    open_, handles, held = [Candidate(start, 0, (), None, 0, 0, 0.0)], [handle], [handle]
    done: list[tuple[tuple[int, ...], bool, float]] = []
    spent = 0
    while True:
        broods = []
        for part, law in laws_after(logits, [each.stem for each in open_], decoding, margin):
            ids = law.logprob.topk(min(width, model.vocab_size)).indices.cpu().numpy()
            row, token = np.repeat(np.arange(len(ids)), ids.shape[1]), ids.ravel()
            steps = np.concatenate([law.taken(row, token), law.p_max[None, row]])
            sums = np.stack([each.sums for each in open_[part]], axis=1)[:, row] + steps
            waits = sums[1] > -math.inf
            broods.append(Brood(open_[part], handles[part], row, token, sums, row, row, waits))
        going = []
        for brood in broods:
            every = np.flatnonzero(brood.waits)
            depth = np.full(len(every), len(open_[0].path) + 1)
            over = ending.ends(brood.token[every], depth, partial(brood.paths, every))
            done += reached(brood, every[over], True)
            going.append((brood, every[~over]))
        logprob = np.concatenate([brood.sums[0, places] for brood, places in going])
        which = np.repeat(np.arange(len(going)), [len(places) for _, places in going])
        place = np.concatenate([places for _, places in going])
        best = np.argsort(-logprob, kind="stable")[: min(width, forwards - spent)]
        open_ = [
            broods[i].open(at)
            for i, at in zip(which[best].tolist(), place[best].tolist(), strict=True)
        ]
        if not open_:
            break
        spent += len(open_)
        new, logits = forward(model, [each.stem for each in open_])
        handles = new.tolist()
        held += handles
    for brood, places in going:
        done += reached(brood, places, False)
    model.release(np.array(held, dtype=np.int64))
    return Beams(tuple(done), spent)


def reached(
    brood: Brood, places: Ints, ended: bool
) -> Iterator[tuple[tuple[int, ...], bool, float]]:
    """These children, as beams tell them."""
    floors = brood.sums[1, places].tolist()
    return zip(brood.paths(places), repeat(ended), map(math.exp, floors))
