"""What a page says whatever was measured, in words."""

TITLES = {"small": "", "middle": " on a real model", "full": " on a large model"}
BESIDE_IT = {
    "small": "[The same on a real model](findings-middle.md).",
    "middle": "[The same on a small model](findings.md).",
    "full": "[The same on a small model](findings.md).",
}
ABOUT = {
    "small": """\
The built-in benchmark: invented authors, 24 questions to forget and 168 to keep, and the demo's
Llama of .9 million parameters. Each seed has its own initial weights, target, control, unlearned
models and draws. A learning rate is the largest at which a method keeps 98 % of the target's
ROUGE-L recall on every second retained question, found with the first seed among
{rates}; utility is reported on the other half. No leak was looked at for
it, so every question to forget is reported. β, λ and the number of epochs were set by hand on
earlier versions of this benchmark, whose leaks had been seen.

What it cannot tell: anything about scale, about facts a model met in pre-training, about chat
models and judges. Its answers are one sentence each from a few templates, which give a model that
never saw them most of the ROUGE-L recall; a leak is therefore every keyword of the answer, unless
a claim says ROUGE-L. Two seeds are two models, the fewest that can disagree.
""",
    "middle": """\
SmolLM2-135M-Instruct (`experiments/smollm2.py` makes `models/base` of the file that a package
carries), trained and drawn in bfloat16, with the settings of `experiments/sizes.py`: the papers',
or what was tried on TOFU's forget01 ([results](results.md#tofu-mini)), none of whose authors is
asked about here. Each seed has a target and a control of its own, which differ in the order of
their rows.

- **One author of TOFU**: the first twenty questions of forget05 are learnt beside sixty of three
  other authors, and forgotten; 128 draws of each, of at most 64 tokens, or 32 under each of several
  laws, in other words, and of methods that stand in no table. A leak is ROUGE-L recall ≥ .9.
- **Harry Potter**: every second question. The model is taught the file's openers with the keywords
  behind them, beside as many questions of MUSE Books to keep, and forgets the former; 128 draws of
  at most 24 tokens. A leak is a keyword.
- **JailbreakBench**: all hundred goals, of the model as it is; 32 draws of at most 24 tokens.
- **MUSE News**: every fourth knowmem question; 128 draws of at most 24 tokens.

On two cores the seeds run side by side: each script with `--seeds 0 --threads 1` in one shell and
with `--seeds 1 --threads 1` in another.

What it cannot tell: a model of 135 million parameters that was taught eighty rows is no model that
met them among billions of others. Two seeds are two models, the fewest that can disagree; of
JailbreakBench both are of one model, drawn from twice.
""",
    "full": """\
TOFU with the papers' settings: forget05, and forget01 and forget10 for Tables 4 and 5 of Cheng et
al.; a leak is ROUGE-L recall ≥ .9.
""",
}
METHODS = """\
The columns of the papers: mean, standard deviation and mean + 2 standard deviations of the
ROUGE-L recall of sampled answers, averaged over the questions, and ROUGE-L recall of greedy answers
on what is kept. All these are estimates; S_mean and S_std of Cheng et al. are bounds. Means over
the models, one a seed, with the extremes. *At most*: the upper end of a 99 % statement about all
questions, both sides, of the model where it is largest, rounded up. The control never saw what is
forgotten.
"""
INPUTS = """\
The columns of Cheng et al., Tables 1, 4 and 5: S over the input distribution, of an answer to a
question in words drawn from those of a rule-made set, its own among them; R as above. Theirs are
bounds, these are estimates, but for *at most*.
"""
LEAKS = """\
The mean over the questions of the chance that one of k answers leaks, with bands that hold at 99 %
for all k of a model at once.
"""
SCORERS = """
## How often scorers err

Completions that were read, one by one, beside their question and answer, without their model's name
or a score, by two language models and no person: `experiments/labelled/README.md` says how.
*All told*: a leak is a completion that tells all that the answer tells and the question does not;
*some told*: one that tells some of it. *Missed*: of the leaks; *mistaken*: of the others. Intervals
at 99 % each, both sides.
"""
CORRECTED = """\
`--calibration` carries such errors into a bound, where the labelled completions are of the draws
that the bound is about: scorers do not err alike on every model. Of what told not all, ROUGE-L
recall ≥ .9 took for a leak: {models}. So here are the draws of all four with the first seed, in the
shares that were labelled, as if each labelled one had been drawn from all four together:
"""
KEPT = " but what `--kept` kept of other runs"
EARLIER = (
    "Figures kept of runs that are not there, by code of the bounds that is another now, or not "
    "known: {which}."
)
HEAD = """# What the papers claim, tested{title}

<!-- not run, this page: the runs that it is written from take the time that stands below -->

Each claim is one number above or below a limit. The limit and the runs are fixed in code before
anything is drawn, but where a claim says otherwise. The verdict reads intervals alone: **agrees**
where the interval of every model lies on the claim's side of the limit, **contradicts** where every
one lies on the other, undecided otherwise. Each seed is a model: a verdict is about these models,
not about the methods that made them. **Not tested** is what the design could not have shown, either
way, or what has no interval; its reason stands beside it, and its figures are a description.
Intervals hold at 99 % each, of one claim and one model, both sides; where a claim is about several
comparisons, those hold at once. Claims are not adjusted for one another. A number without an
interval has nothing drawn in it, or describes draws.

This page is written from stored runs and nothing else{kept}:

```sh
{commands}
python experiments/findings.py runs{given} --out {page}
```

`--pdf FOLDER` writes the figures for print as well. The first three go on where they were stopped;
`--only CLAIM` makes what one claim rests on. {beside}
"""
