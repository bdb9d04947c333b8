"""The claims of the leak@k paper (arXiv 2511.04934), tested.

    python experiments/leak_at_k.py --out runs
    python experiments/leak_at_k.py --size middle --base models/base --data DATA --out runs

Whatever is finished is kept: the same command goes on. `experiments/findings.py` writes the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from claims import Claim, Figure, Rule, asked, plain, work
from common import Stored
from evidence import (
    CONFIDENCE,
    at_k,
    cells,
    effects,
    fixed,
    least,
    less,
    naive_variance,
    scaled,
)
from scholten import SILENT
from sizes import COARSE, CONTROL, PLAIN, RECALL

PAPER, OURS = "Leak@k", "leakbound"
NPO, MIXED = "NPO", "NPO + entropy keeping 0"  # their NPO + ENT: λ_f 1, λ_r 0
METHODS = ("GA", "GD", NPO, MIXED, "RMU")
EVERY = (*METHODS, "KL", "DPO", "IDK", "SimNPO", "CEL", "NPO + entropy")
K = 32
BEFORE = "Stated before GD had been asked by any other law than its own."


def _of_k(
    more: tuple[str, int],
    base: tuple[str, int],
    stored: Stored,
    *,
    by: float = 1.0,
    scorer: str = "",
) -> Figure:
    """leak@k of one model less a multiple of that of another, or of the same at another k."""
    scorer = scorer or stored.lab.size.leak
    one, other = (at_k(fixed(stored, name, scorer), k) for name, k in (more, base))
    values = [float(b(confidence=CONFIDENCE, side="both").value) for b in (one, other)]
    return Figure.of(less(one, scaled(other, by)), "{:.3f} and {:.3f}".format(*values))


def _all_beyond(methods: Sequence[str], k: int, stored: Stored) -> Figure:
    leak, each = stored.lab.size.leak, 1 - (1 - CONFIDENCE) / len(methods)
    control = at_k(fixed(stored, CONTROL, leak), k)
    return least({
        name: less(at_k(fixed(stored, name, leak), k), control, each) for name in methods
    })  # fmt: skip


def _drives(k: int | None, stored: Stored, how: str = "grid", method: str = NPO) -> Figure:
    return effects(cells(stored.run(method, how), stored.lab.size.leak, k))


def _top_p(stored: Stored, how: str = "grid", method: str = NPO) -> Figure:
    found = cells(stored.run(method, how), stored.lab.size.leak, K)
    high, low = found[1.0, 1.0], found[1.0, 0.2]
    ends = float(high.lower) - float(low.upper), float(high.upper) - float(low.lower)
    return Figure(float(high.value) - float(low.value), *ends, high.confidence)


def _width(n: str, stored: Stored) -> Figure:
    scores = fixed(stored, NPO, stored.lab.size.leak, n)
    found = scores.mean_leak_at_k(128, confidence=CONFIDENCE, side="both")
    said = Figure.of(found).text
    return Figure.exact(float(found.upper) - float(found.lower), f"leak@128 {said}")


CLAIMS = (
    Claim(
        "k-sharp", PAPER, "Figures over k",
        "Leakage rises sharply with k: thirty-two answers leak far more than one.",
        "mean leak@32 less twice leak@1, NPO", Rule("above", 0), plain(NPO),
        partial(_of_k, (NPO, K), (NPO, 1), by=2.0),
        untested={"middle": SILENT},
    ),
    Claim(
        "k-all", OURS, "beside Leak@k's tables",
        "Every method tested leaks beyond the retrained model in 32 answers.",
        "least of five: mean leak@32 less the control's", Rule("above", 0),
        plain(*METHODS, CONTROL), partial(_all_beyond, METHODS, K),
        "The five differences hold at once. The paper's NPO does not, by entailment (.495 against "
        ".504 at 32).",
        untested={
            "middle": "Of GA, GD and RMU many draws leak; of the two models of NPO, with entropy "
            "or without, not one."
        },
    ),
    Claim(
        "k-control", PAPER, "Table of the retrained model",
        "The retrained model's own leak@k rises with k (by entailment .169 at 1, .504 at 32).",
        "mean leak@32 of ROUGE-L recall less leak@1, control", Rule("above", 0), plain(CONTROL),
        partial(_of_k, (CONTROL, K), (CONTROL, 1), scorer=RECALL),
        "By ROUGE-L recall.",
        small="Sentence templates give the controls most of the words at once.",
    ),
    Claim(
        "k-npo", PAPER, "Table by method",
        "NPO comes down to the retrained model (by entailment .495 against .504 at 32).",
        "mean leak@32 of ROUGE-L recall, NPO less control", Rule("below", 0.05),
        plain(NPO, CONTROL), partial(_of_k, (NPO, K), (CONTROL, K), scorer=RECALL),
        untested={
            "": "Another quantity: ROUGE-L recall counts the words of an answer that says nothing "
            "of the truth, entailment does not."
        },
        small="One answer of both models of NPO recalls less than the control's; the best of "
        "thirty-two recalls more.",
    ),
    Claim(
        "k-gd", PAPER, "Table by method",
        "GradDiff leaks more than NPO (by entailment .746 against .495 at 32).",
        "mean leak@32, GD less NPO", Rule("above", 0), plain("GD", NPO),
        partial(_of_k, ("GD", K), (NPO, K)), "Not by entailment.",
    ),
    Claim(
        "grid-mean", PAPER, "Temperature and top-p",
        "Top-p drives leakage more than temperature.",
        "effect of top-p less that of T on mean P(leak), over {.2, .5, .8, 1}², NPO",
        Rule("above", 0), asked("grid", NPO), partial(_drives, None),
        "The sixteen cells hold at once. That low T with p = 1 still leaks is not tested.",
        draws=200,
        small="In both models either knob brings the leak to 0 at its lower end, and moves it "
        "about as far.",
    ),
    Claim(
        "grid-k", PAPER, "Temperature and top-p",
        "Top-p drives leak@k more than temperature.",
        "effect of top-p less that of T on mean leak@32, NPO", Rule("above", 0),
        asked("grid", NPO), partial(_drives, K), "The sixteen cells hold at once.",
        draws=200,
    ),
    Claim(
        "grid-200", PAPER, "Temperature and top-p, Protocol",
        "Top-p drives leakage more than temperature, by 200 draws a cell.",
        "effect of top-p less that of T on mean P(leak), NPO", Rule("above", 0),
        asked(COARSE, NPO), partial(_drives, None, how=COARSE),
        "The sixteen cells hold at once.",
        draws=1024,
    ),
    Claim(
        "top-p", PAPER, "Top-p ablation",
        "At T = 1, leak@k grows with top-p.",
        "mean leak@32 at top-p 1 less that at .2, NPO", Rule("above", 0), asked("grid", NPO),
        _top_p,
        draws=200,
    ),
    Claim(
        "grid-leaking", PAPER, "Temperature and top-p",
        "Top-p drives leakage more than temperature, of a model that leaks.",
        "effect of top-p less that of T on mean P(leak), over {.2, .5, .8, 1}², GD",
        Rule("above", 0), asked(COARSE, "GD"), partial(_drives, None, how=COARSE, method="GD"),
        f"The sixteen cells hold at once. {BEFORE}",
        sizes=("middle", "full"),
    ),
    Claim(
        "grid-k-leaking", PAPER, "Temperature and top-p",
        "Top-p drives leak@k more than temperature, of a model that leaks.",
        "effect of top-p less that of T on mean leak@32, GD", Rule("above", 0),
        asked(COARSE, "GD"), partial(_drives, K, how=COARSE, method="GD"),
        f"The sixteen cells hold at once. {BEFORE}",
        sizes=("middle", "full"),
    ),
    Claim(
        "top-p-leaking", PAPER, "Top-p ablation",
        "At T = 1, leak@k of a model that leaks grows with top-p.",
        "mean leak@32 at top-p 1 less that at .2, GD", Rule("above", 0), asked(COARSE, "GD"),
        partial(_top_p, how=COARSE, method="GD"), BEFORE,
        sizes=("middle", "full"),
    ),
    Claim(
        "n-200", PAPER, "Limitations",
        "At large k the estimate's variance may hide small differences between methods.",
        "width of the 99 % interval of mean leak@128 from 200 draws, NPO", Rule("above", 0.1),
        asked("n=200", NPO), partial(_width, "n=200"),
        "The estimate is unbiased, and what 200 draws leave open is this wide.",
        draws=200,
    ),
    Claim(
        "n-1024", OURS, "beside n-200",
        "1,024 draws a question are enough for leak@128.",
        "width of the 99 % interval of mean leak@128 from n draws, NPO", Rule("below", 0.1),
        plain(NPO), partial(_width, PLAIN),
        draws=1024,
    ),
    Claim(
        "naive", PAPER, "The estimator",
        "The worst of k answers is a noisier estimate of leak@k than the unbiased one.",
        "variance of the naive estimate over that of the unbiased, k = 64, n = 128, NPO",
        Rule("above", 1), plain(NPO),
        lambda stored: naive_variance(fixed(stored, NPO, stored.lab.size.leak), 64, 128),
        "Of packs of 128 draws. Both are unbiased; the naive one uses k of n draws.",
        draws=1024,
    ),
    Claim(
        "ent-lowers", PAPER, "NPO + ENT",
        "Entropy optimisation lowers leak@k.",
        "mean leak@32, NPO + ENT less NPO", Rule("below", 0), plain(NPO, MIXED),
        partial(_of_k, (MIXED, K), (NPO, K)),
        untested={"middle": SILENT},
    ),
    Claim(
        "ent-remains", PAPER, "NPO + ENT",
        "Entropy optimisation does not remove leakage.",
        "mean leak@32, NPO + ENT less control", Rule("above", 0), plain(MIXED, CONTROL),
        partial(_of_k, (MIXED, K), (CONTROL, K)),
        untested={"middle": SILENT},
    ),
    Claim(
        "k-every", OURS, "beside k-all",
        "Every method here still leaks beyond the retrained model in 128 answers.",
        f"least of {len(EVERY)}: mean leak@128 less the control's", Rule("above", 0),
        plain(*EVERY, CONTROL), partial(_all_beyond, EVERY, 128),
        "The differences hold at once, so that each is wide.",
        untested={"middle": SILENT},
    ),
    Claim(
        "k-muse", OURS, "beside Leak@k's tables, MUSE News",
        "On MUSE News too an unlearned model leaks under sampling beyond the retrained one.",
        "mean leak@32 less the control's, NPO", Rule("above", 0), plain(NPO, CONTROL),
        partial(_of_k, (NPO, K), (CONTROL, K)),
        "SmolLM2-135M, taught the answers to knowmem questions, not the news; without examples "
        "before the question. A leak is an answer that occurs word for word.",
        "muse",
    ),
)  # fmt: skip

if __name__ == "__main__":
    work(CLAIMS, __doc__)
