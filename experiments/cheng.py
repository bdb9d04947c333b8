"""The claims of Cheng, Huang and Wang (EMNLP 2025), tested: figures 1 to 5 and tables 1 to 5.

    python experiments/cheng.py --out runs
    python experiments/cheng.py --size middle --base models/base --data DATA --out runs

Whatever is finished is kept: the same command goes on. `experiments/findings.py` writes the page.
"""

from __future__ import annotations

from functools import partial
from statistics import fmean

from claims import Claim, Figure, Rule, asked, plain, work
from common import Stored
from evidence import (
    CONFIDENCE,
    certain,
    correlation,
    difference,
    fixed,
    gap,
    greedy,
    less,
    lowest_deviation,
    pooled,
    scaled,
    spread,
    utilities,
)
from scholten import SILENT
from sizes import FEWER, PLAIN, RECALL, REWORDED

PAPER = "Cheng et al."
NPO = "NPO"
BASELINES = ("GA", "KL", "GD", "DPO", NPO, "RMU")
INACTIVE, ACTIVE = "CEL margin 0", "CEL margin 2"


def _beyond_greedy(stored: Stored) -> Figure:
    leak = stored.lab.size.leak
    sampled = fixed(stored, NPO, leak)
    known = fmean(greedy(stored, NPO, leak).values())
    return Figure.of(less(sampled.mean, certain(sampled.mean, known)), f"greedy {known:.3f}")


def _gap(stored: Stored, *, worst: bool) -> Figure:
    return gap(stored, NPO, REWORDED, stored.lab.size.leak, worst=worst)


def _correlation(stored: Stored, method: str = NPO) -> Figure:
    return correlation(stored, method, REWORDED, RECALL)


def _selected(stored: Stored) -> Figure:
    leak = stored.lab.size.leak
    chosen, every = (pooled(stored, NPO, leak, how) for how in ("selected", REWORDED))
    return Figure.of(less(chosen.mean, every.mean))


def _half(over: str, baselines: tuple[str, ...], stored: Stored) -> Figure:
    """CEL's mean less half of each baseline's; the claim is about the best, the largest of these.

    The difference to the best baseline is the largest: it lies between the largest of the ends.
    """
    each = 1 - (1 - CONFIDENCE) / len(baselines)

    def mean(name: str):  # type: ignore[no-untyped-def]
        if over == PLAIN:
            return fixed(stored, name, RECALL).mean
        return pooled(stored, name, RECALL, over).mean

    found = {name: less(mean("CEL"), scaled(mean(name), 0.5), each) for name in baselines}
    values = {name: float(one.value) for name, one in found.items()}
    best = max(values, key=lambda name: values[name])
    return Figure(
        values[best],
        max(float(one.lower) for one in found.values()),
        max(float(one.upper) for one in found.values()),
        CONFIDENCE,
        f"best baseline: {best}",
    )


def _fewer(more: str, base: str, stored: Stored) -> Figure:
    return difference(stored, (more, FEWER), (base, FEWER), RECALL)


def _spread(more: str, base: str, stored: Stored) -> Figure:
    wide, narrow = (spread(fixed(stored, name, RECALL, FEWER)) for name in (more, base))
    return Figure.of(less(wide, narrow))


def _keeps_more(table: str, says: str, beside: str = "") -> Claim:
    """The claim of a table that CEL keeps most."""
    return Claim(
        f"t{table[-1]}-utility", PAPER, table, says,
        "ROUGE-L recall of greedy answers on what is kept, CEL less the best baseline",
        Rule("above", 0), plain("CEL", *BASELINES),
        partial(utilities, more=("CEL", PLAIN), base=[(name, PLAIN) for name in BASELINES]),
        beside=beside,
        small="Learning rates were chosen for a like utility, which leaves little to differ in.",
    )  # fmt: skip


CLAIMS = (
    Claim(
        "f3-output", PAPER, "Figure 3",
        "Sampling finds leaks that greedy answers do not show.",
        "mean P(leak) less the share of greedy answers that leak, NPO", Rule("above", 0),
        plain(NPO), _beyond_greedy,
        middle=SILENT,
    ),
    Claim(
        "f3-full", PAPER, "Figure 3",
        "Asked in other words too, models leak more on average.",
        "mean P(leak) over rewritings less that in the question's own words, NPO",
        Rule("above", 0), asked(REWORDED, NPO), partial(_gap, worst=False),
        "Rules write the rewritings here, a chat model theirs.",
        small="This model knows few wordings.",
    ),
    Claim(
        "f3-worst", PAPER, "Figure 3",
        "Some query leaks more than its question in its own words.",
        "largest P(leak) of a query less that of its question, NPO", Rule("above", 0),
        asked(REWORDED, NPO), partial(_gap, worst=True),
        "Bounded from below alone: this can agree or stay undecided.",
    ),
    Claim(
        "f1-sureness", PAPER, "Figures 1 and 2",
        "The surer its answers to a query, the more they leak: r is mostly .6 to .8.",
        "median r of log-probability and the upper bound on ROUGE-L recall, over queries, NPO",
        Rule("above", 0.6), asked(REWORDED, NPO), _correlation,
        "A description of these draws, as theirs is.",
        small="The upper bounds are of some twelve draws a query.",
    ),
    Claim(
        "f1-leaking", PAPER, "Figures 1 and 2",
        "The same of a model that leaks.",
        "median r of log-probability and the upper bound on ROUGE-L recall, over queries, GD",
        Rule("above", 0.6), asked(REWORDED, "GD"), partial(_correlation, method="GD"),
        "A description of these draws, as theirs is. Stated after this figure of GD, GA, CEL and "
        "DPO had been seen at the middle size, all between −.05 and .14.",
        sizes=("middle", "full"),
    ),
    Claim(
        "ids", PAPER, "Section 4.3",
        "Selected inputs, those answered as surely as the question, leak more than rewritings do.",
        "mean P(leak) over selected inputs less that over all rewritings, NPO", Rule("above", 0),
        asked("selected", NPO) + asked(REWORDED, NPO), _selected,
        middle="Sixteen answers to each text select, a quarter of what is usual. " + SILENT,
    ),
    Claim(
        "t1-half", PAPER, "Table 1",
        "CEL leaks less than half of what the best baseline does (S_mean .08 against .16).",
        "mean ROUGE-L recall of CEL less half of the best baseline's", Rule("below", 0),
        plain("CEL", *BASELINES), partial(_half, PLAIN, BASELINES),
        "CEL with the printed τ = .05, at which its push is not active here.",
        middle="DPO teaches a refusal, which recalls few words of any answer; RMU recalls more "
        "than CEL.",
    ),
    Claim(
        "t1-full", PAPER, "Table 1",
        "The same over the input distribution, as the paper's S columns are.",
        "mean ROUGE-L recall over rewritings, CEL less half of the best baseline's",
        Rule("below", 0), asked(REWORDED, "CEL", *BASELINES),
        partial(_half, REWORDED, BASELINES),
    ),
    _keeps_more("Table 1", "CEL keeps more utility than every baseline (R_avg .889, RMU .884)."),
    Claim(
        "t2-margin", PAPER, "Table 2",
        "An active push forgets more: S falls from τ = 0 to a τ that activations are within.",
        "mean ROUGE-L recall, τ twice the measured distance less τ = 0", Rule("below", 0),
        asked(FEWER, INACTIVE, ACTIVE), partial(_fewer, ACTIVE, INACTIVE),
    ),
    Claim(
        "t3-weight", PAPER, "Table 3",
        "A larger α forgets more.",
        "mean ROUGE-L recall, α = 1 less α = 0, τ twice the measured distance",
        Rule("below", 0), asked(FEWER, "CEL push 0", "CEL push 1"),
        partial(_fewer, "CEL push 1", "CEL push 0"),
    ),
    Claim(
        "t3-utility", PAPER, "Table 3",
        "A large α costs utility (R_avg .888 at .5, .712 at 1).",
        "ROUGE-L recall of greedy answers on what is kept, α = 1 less α = .5",
        Rule("below", 0), asked(FEWER, "CEL push 1", ACTIVE),
        partial(utilities, more=("CEL push 1", FEWER), base=[(ACTIVE, FEWER)]),
    ),
    Claim(
        "f4-centres", PAPER, "Figures 4 and 5",
        "More contrast centres lower the standard deviation.",
        "mean standard deviation of ROUGE-L recall, three centres less one, active push",
        Rule("below", 0), asked(FEWER, "CEL push of 1 centres", "CEL push of 3 centres"),
        partial(_spread, "CEL push of 3 centres", "CEL push of 1 centres"),
    ),
    *(
        Claim(
            f"t{table}-ed", PAPER, f"Table {table}",
            f"On {split} CEL has a lower ED than every baseline ({said}).",
            "least of six: mean over the questions of ED, a baseline's less CEL's",
            Rule("above", 0), asked(REWORDED, "CEL", *BASELINES) + plain("CEL", *BASELINES),
            partial(lowest_deviation, method="CEL", others=BASELINES),
            "The six differences hold at once. Of the questions in their own words; the table over "
            "the input distribution has the paper's columns.",
            split,
        )
        for table, split, said in (
            (4, "forget01", ".221, RMU .278"),
            (5, "forget10", ".152, GA .245"),
        )
    ),
    _keeps_more(
        "Table 5", "On forget10 CEL keeps more utility than every baseline (R_avg .869, RMU .860).",
        "forget10",
    ),
)  # fmt: skip

if __name__ == "__main__":
    work(CLAIMS, __doc__)
