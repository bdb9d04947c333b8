"""Does the forgetting last, and which method's lasts longest? Methods, stresses, training seeds.

    python experiments/lasting.py builtin --out runs --seeds 0,1,2,3,4

Each method unlearns the target of a size with each seed, at the learning rate that the size's rule
chooses (see unlearning.py); each model is evaluated as it is and under every stress, beside a
control that is put through the same. What is said of a method is the median over its seeds of the
mean excess; mean and spread describe the seeds. Whatever is finished is kept: the same command goes
on, and `--table` only prints what is there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median

import torch
from common import UTILITY, Lab, kept_recall, phases
from sizes import CONTROL, SIZES, TARGET, Method

from leakbound.evaluation import evaluate
from leakbound.evaluation.comparing import compare_methods
from leakbound.evaluation.views.methods import MethodStanding
from leakbound.store import Run, write_json
from leakbound.store.files import write_text
from leakbound.study import ModelSettings
from leakbound.text.figures import below, number

N = 256
LEAK = "keyword:require=all"
STRESSES = ("round:int4", "relearn:retain=16,epochs=3,rate=0.0005", "shots")
MORE = {
    "UNDIAL": Method("undial"),
    "AltPO": Method("altpo"),
    "WGA": Method("wga"),
    "SatImp": Method("satimp"),
    "CE-U": Method("ceu"),
    "PDU": Method("pdu"),
}
NAMES = (
    "GD", "IDK", "DPO", "NPO", "SimNPO", "RMU", "CEL", *MORE, "NPO then entropy", "leakmin",
)  # fmt: skip
BEGIN, END = "<!-- made by experiments/lasting.py: begin -->", "<!-- end -->"


def stressed(lab: Lab, name: str, seed: int = 0) -> Run:
    """The run of a model as it is and under every stress, drawn where that was not done yet."""
    model, path = lab.model(name, seed), place(lab, name, seed)
    control = None if name == CONTROL else place(lab, CONTROL)
    run = evaluate(
        str(model),
        lab.task,
        out=path,
        control=control,
        n=N,
        scorers=(LEAK,),
        stress=STRESSES,
        settings=ModelSettings(device=lab.device, dtype=lab.size.dtype),
        progress=phases(path.name),
    )
    if not (path / UTILITY).exists():
        write_json(path / UTILITY, lab._utility(model))
    return run


def place(lab: Lab, name: str, seed: int = 0) -> Path:
    """Where that run is, or will be."""
    return lab.folder / "runs" / "stressed" / lab.slug(name, seed)


def tables(lab: Lab, seeds: Sequence[int]) -> Iterator[str]:
    """The leaderboard in Markdown: a row a method, a column a stress, the least median first."""
    runs = {
        f"{name}-{seed}": Run.open(path)
        for name in (TARGET, *NAMES)
        for seed in (seeds if name != TARGET else seeds[:1])
        if ((path := place(lab, name, seed)) / UTILITY).exists()
    }
    whole = [name for name in NAMES if all(f"{name}-{seed}" in runs for seed in seeds)]
    of_seeds = {label: run for label, run in runs.items() if label.rpartition("-")[0] in whole}
    if not whole:
        return
    found: dict[str, Mapping[str, MethodStanding]] = {}
    for stress in ("", *STRESSES):
        made = compare_methods(of_seeds, under=stress)
        found[stress] = {one.method: one for one in made.standings[LEAK]}
    columns = ["method", "as it is", *STRESSES, "retain recall", "training"]
    yield f"| {' | '.join(columns)} |"
    yield "|".join(["", "---", *["---:"] * (len(columns) - 1), ""])
    for name in sorted(whole, key=lambda name: float(found[""][name].median.value)):
        cells = [_cell(found[stress][name]) for stress in ("", *STRESSES)]
        kept = fmean(
            fmean(kept_recall(place(lab, name, seed) / UTILITY).values()) for seed in seeds
        )
        seconds = median(_seconds(lab, name, seed) for seed in seeds)
        yield f"| {name} | {' | '.join(cells)} | {number(kept)} | {seconds:.0f} s |"


def _cell(one: MethodStanding) -> str:
    """The median's lower end, and the values of the seeds from the least to the largest."""
    low, high = min(one.known), max(one.known)
    return f"≥ {below(float(one.median.lower))} ({number(low)} … {number(high)})"


def _seconds(lab: Lab, name: str, seed: int) -> float:
    log = lab.folder / "models" / lab.slug(name, seed) / "training.jsonl"
    return float(json.loads(log.read_text(encoding="utf-8").splitlines()[-1])["seconds"])


def main() -> None:
    """Do what is asked, then print the table, and put it into a page."""
    options = _options()
    torch.set_num_threads(options.threads)
    lab = Lab.open(options.size, options.out / options.size)
    lab = replace(lab, size=replace(lab.size, more={**lab.size.more, **MORE}))
    for seed in options.seeds if not options.table else ():
        for name in (CONTROL, TARGET, *(options.methods or NAMES)):
            if seed == options.seeds[0] or name not in (CONTROL, TARGET):
                stressed(lab, name, seed)
    text = "\n".join(tables(lab, options.seeds))
    print(text)
    if options.page is not None and text:
        page = options.page.read_text(encoding="utf-8")
        before, _, rest = page.partition(BEGIN)
        write_text(options.page, f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("size", choices=[name for name in SIZES if name == "builtin"])
    parser.add_argument("--out", type=Path, required=True, help="folder for models and runs")
    parser.add_argument("--seeds", type=_numbers, default=(0, 1, 2, 3, 4), help="of the unlearning")
    parser.add_argument("--methods", type=lambda text: text.split(","), help="some of them")
    parser.add_argument("--threads", type=int, default=1, help="threads for torch")
    parser.add_argument("--table", action="store_true", help="only print what is there")
    parser.add_argument("--page", type=Path, help="a page to put the table into")
    return parser.parse_args()


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


if __name__ == "__main__":
    main()
