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
IDLE = "At the printed τ = .05 CEL's push is not active: activations lie further apart on average."
IDLE_HERE = {"small": IDLE, "middle": IDLE}
SPARSE = "Of {} draws a query on average, where such an r needs 64."


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
        beside=beside, untested=IDLE_HERE,
        small="Learning rates were chosen for a like utility, which leaves little to differ in.",
    )  # fmt: skip


CLAIMS = (
    Claim(
        "f3-output", PAPER, "Figure 3",
        "Sampling finds leaks that greedy answers do not show.",
        "mean P(leak) less the share of greedy answers that leak, NPO", Rule("above", 0),
        plain(NPO), _beyond_greedy,
        "That only other words too find questions above .6 is not tested.",
        untested={"middle": SILENT},
    ),
    Claim(
        "wordings-mean", PAPER, "Section 4.2",
        "Over the input distribution a question should leak no less than in its own words.",
        "mean P(leak) over rewritings less that in the question's own words, NPO",
        Rule("above", 0), asked(REWORDED, NPO), partial(_gap, worst=False),
        "Rules write the rewritings here, a chat model theirs, of which IDS selects.",
        untested={"middle": SILENT},
        small="These models know few wordings.",
    ),
    Claim(
        "wordings-worst", PAPER, "Section 4.1",
        "Some query leaks more than its question in its own words.",
        "largest P(leak) of a query less that of its question, NPO", Rule("above", 0),
        asked(REWORDED, NPO), partial(_gap, worst=True),
        "Bounded from below alone: this can agree or stay undecided.",
        untested={"middle": SILENT},
    ),
    Claim(
        "f1-sureness", PAPER, "Figures 1 and 2",
        "The surer its answers to a query, the larger the upper bound on their leakage: r is "
        "mostly .6 to .8.",
        "median r of log-probability and the upper bound on ROUGE-L recall, over queries, NPO",
        Rule("above", 0.6), asked(REWORDED, NPO), _correlation,
        untested={
            "small": SPARSE.format(12),
            "middle": f"{SPARSE.format(1.5)} {SILENT}",
        },
    ),
    Claim(
        "f1-leaking", PAPER, "Figures 1 and 2",
        "The same of a model that leaks.",
        "median r of log-probability and the upper bound on ROUGE-L recall, over queries, GD",
        Rule("above", 0.6), asked(REWORDED, "GD"), partial(_correlation, method="GD"),
        untested={
            "middle": f"{SPARSE.format(1.5)} Stated after this figure of GD, GA, CEL and "
            "DPO had been seen, all between −.05 and .14."
        },
        sizes=("middle", "full"),
    ),
    Claim(
        "ids", PAPER, "Section 4.3",
        "Selected inputs, those answered as surely as the question, leak more than rewritings do.",
        "mean P(leak) over selected inputs less that over all rewritings, NPO", Rule("above", 0),
        asked("selected", NPO) + asked(REWORDED, NPO), _selected,
        untested={"middle": SILENT},
        middle="Sixteen answers to each text select, a quarter of what is usual.",
    ),
    Claim(
        "t1-half", PAPER, "Table 1",
        "CEL halves S_mean of the best baseline (.1622 to .0809), and lowers S_std by 37.2 %.",
        "mean ROUGE-L recall of CEL less half of the best baseline's", Rule("below", 0),
        plain("CEL", *BASELINES), partial(_half, PLAIN, BASELINES),
        "Of S_mean alone.",
        untested=IDLE_HERE,
        middle="The two models of DPO refuse, which recalls few words of any answer; those of RMU "
        "recall more than those of CEL.",
    ),
    Claim(
        "t1-full", PAPER, "Table 1",
        "The same over the input distribution, as the paper's S columns are.",
        "mean ROUGE-L recall over rewritings, CEL less half of the best baseline's",
        Rule("below", 0), asked(REWORDED, "CEL", *BASELINES),
        partial(_half, REWORDED, BASELINES), untested=IDLE_HERE,
    ),
    _keeps_more("Table 1", "CEL keeps more utility than every baseline (R_avg .889, RMU .884)."),
    Claim(
        "t2-margin", PAPER, "Table 2",
        "A larger τ forgets more (S_ED .389 at 0, .145 at .05).",
        "mean ROUGE-L recall, τ twice the measured distance less τ = 0", Rule("below", 0),
        asked(FEWER, INACTIVE, ACTIVE), partial(_fewer, ACTIVE, INACTIVE),
        "The push is active. Of the mean, not ED. That R_avg hardly changes is not tested.",
    ),
    Claim(
        "t3-weight", PAPER, "Table 3",
        "A larger α forgets more (S_ED .390 at 0, .119 at 1).",
        "mean ROUGE-L recall, α = 1 less α = 0, τ twice the measured distance",
        Rule("below", 0), asked(FEWER, "CEL push 0", "CEL push 1"),
        partial(_fewer, "CEL push 1", "CEL push 0"), "The push is active. Of the mean, not ED.",
    ),
    Claim(
        "t3-utility", PAPER, "Table 3",
        "A large α costs utility (R_avg .889 at .6, .712 at 1).",
        "ROUGE-L recall of greedy answers on what is kept, α = 1 less α = .5",
        Rule("below", 0), asked(FEWER, "CEL push 1", ACTIVE),
        partial(utilities, more=("CEL push 1", FEWER), base=[(ACTIVE, FEWER)]),
    ),
    Claim(
        "f4-centres", PAPER, "Figure 4",
        "More contrast centres lower the standard deviation.",
        "mean standard deviation of ROUGE-L recall, three centres less one, active push",
        Rule("below", 0), asked(FEWER, "CEL push of 1 centres", "CEL push of 3 centres"),
        partial(_spread, "CEL push of 3 centres", "CEL push of 1 centres"),
        "The push is active. That mean and utility stay is not tested.",
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
