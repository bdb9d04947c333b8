"""Every unlearning method on one data set: what it still leaks, with bounds, and what it costs.

    python experiments/unlearning.py builtin --out runs
    python experiments/unlearning.py tofu-mini --base models/base --data TOFU --out runs
    python experiments/unlearning.py tofu --base microsoft/phi-1_5 --out runs

`builtin` takes the demo's model and data, `tofu-mini` a small real model (see smollm2.py), `tofu`
forget05 and a GPU. A target learns all rows, a control all but those to forget; each method
unlearns the target with each seed; every model is sampled, and asked what it should still know.
Whatever is finished is kept: the same command goes on, `--methods` and `--seeds` take some of it,
`--ablations` does those of the papers, and `--table` only prints what is there.

Where a size has several learning rates, a method gets the largest at which it keeps the utility
of the target, less 2 %: every method is pushed as far as that allows, and no leak is looked at.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from sizes import CONTROL, RECALL, SIZES, TARGET, Method, Size

from leakbound.benchmarks import Benchmark, load_benchmark
from leakbound.demo.model import write_untrained
from leakbound.engines import Prompting, open_engine
from leakbound.evaluation import evaluate
from leakbound.evaluation.statements.utility import retain_recall
from leakbound.inputs.english.rewriting import rewritings
from leakbound.stats.about import Quantity
from leakbound.store import Estimates, Run, write_json
from leakbound.study import ModelSettings
from leakbound.types import Prompt
from leakbound.unlearning import Progress, finetune, unlearn

FLOOR = 0.98  # of the target's utility, below which a learning rate is too large


@dataclass(frozen=True)
class Study:
    """One size in one folder, on one device."""

    size: Size
    task: Benchmark
    folder: Path
    data: Path | None
    base: str
    device: str

    @property
    def prompting(self) -> Prompting:
        return Prompting(template=self.task.template, system=self.task.system)

    def model(self, name: str, seed: int = 0) -> Path:
        """The folder of a model, trained first where it is not there yet."""
        path = self.folder / "models" / _slug(name, seed)
        if name in (TARGET, CONTROL):
            rows = [*self.task.split("retain"), *(self.task.prompts if name == TARGET else ())]
            finetune(
                self.base,
                rows,
                out=path,
                settings=replace(self.size.learn, device=self.device, prompting=self.prompting),
                progress=_told(path.name),
            )
            return path
        self._unlearned(name, seed, path, self.rate(name))
        return path

    def _unlearned(self, name: str, seed: int, path: Path, rate: float) -> None:
        method = self.methods[name]
        settings = {"learning_rate": rate, **method.settings, "seed": seed, "device": self.device}
        unlearn(
            str(self.model(method.after, seed)),
            method.objective,
            forget=[_with_centres(prompt, method.centres) for prompt in self.task.prompts],
            retain=self.task.split("retain"),
            out=path,
            settings=replace(self.size.forget, prompting=self.prompting, **settings),
            progress=_told(path.name),
        )

    @property
    def methods(self) -> dict[str, Method]:
        return {**self.size.methods, **self.size.ablations}

    def rate(self, name: str) -> float:
        """The largest learning rate at which a method keeps the utility, else the smallest."""
        if not self.size.rates:
            return self.size.forget.learning_rate
        name = self.methods[name].like or name
        file = self.folder / "rates" / f"{_slug(name, 0)}.json"
        if not file.exists():
            write_json(file, self._largest(name))
        return float(json.loads(file.read_text(encoding="utf-8"))["rate"])

    def _largest(self, name: str) -> dict[str, Any]:
        least, tried = FLOOR * self._recall(self.model(TARGET)), {}
        for rate in self.size.rates:
            trial = self.folder / "trials" / f"{_slug(name, 0)}-{rate:g}"
            self._unlearned(name, 0, trial, rate)
            tried[f"{rate:g}"] = self._recall(trial)
            if tried[f"{rate:g}"] >= least:
                break
        return {"rate": rate, "retain recall": tried, "at least": least}

    def _recall(self, model: Path) -> float:
        """Utility on the retain set."""
        engine = open_engine(str(model), self.prompting, device=self.device)
        where, count = self.size.utility["R_r"]
        return retain_recall(engine, self._kept(where)[:count], self.task.max_new_tokens)

    def run(self, name: str, seed: int = 0) -> Run:
        """The run of a model, sampled and asked for its utility where that was not done yet."""
        model = self.model(name, seed)
        run = evaluate(
            str(model),
            self.task,
            out=self.folder / "runs" / model.name,
            n=self.size.n,
            scorers=self.size.scorers,
            settings=ModelSettings(device=self.device, dtype=self.size.dtype),
            progress=_phase(model.name),
        )
        file = run.path / "utility.json"
        if not file.exists():
            write_json(file, self._utility(model))
        return run

    def _utility(self, model: Path) -> dict[str, float]:
        engine = open_engine(str(model), self.prompting, device=self.device, dtype=self.size.dtype)
        return {
            name: retain_recall(engine, self._kept(where)[:count], self.task.max_new_tokens)
            for name, (where, count) in self.size.utility.items()
        }

    def _kept(self, where: str) -> Sequence[Prompt]:
        if where == "retain":
            return self.task.split("retain")
        return load_benchmark(where, data=self.data).prompts

    def finished(self, name: str) -> Iterator[Run]:
        """The runs of a method that are there, of any seed."""
        named = re.compile(re.escape(_slug(name, "")) + "[0-9]*")
        for path in sorted((self.folder / "runs").iterdir()):
            if named.fullmatch(path.name) and (path / "utility.json").exists():
                yield Run.open(path)

    def table(self) -> str:
        """What is finished, in the columns of the papers and with bounds, as Markdown."""
        sets = list(self.size.utility)
        utility = [*sets, "R_avg"] if len(sets) > 1 else sets
        binary = self.size.scorers[1]
        header = [
            "method", "seeds", "greedy", "S_mean", "S_std", "S_ED", "S_mean at most",
            "leak@32 at most", f"P({binary})", "worst question at most",
            f"leak@32({binary}) at most", *utility, "training",
        ]  # fmt: skip
        lines = [header, ["---"] * len(header)]
        for name in (TARGET, *self.methods, CONTROL):
            if runs := list(self.finished(name)):
                found = [self._figures(run, binary) for run in runs]
                cells = [_cell([each[key] for each in found]) for key in found[0]]
                lines.append([name, str(len(runs)), *cells])
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def _figures(self, run: Run, binary: str) -> dict[str, float]:
        scored = run.estimates.where(scorer=RECALL)
        leaks = run.estimates.where(scorer=binary)
        kept = json.loads((run.path / "utility.json").read_text(encoding="utf-8"))
        log = self.folder / "models" / run.path.name / "training.jsonl"
        seconds = json.loads(log.read_text(encoding="utf-8").splitlines()[-1])["seconds"]
        found = {
            "greedy": _each(scored, "greedy score", "greedy"),
            "S_mean": _each(scored, "mean leakage"),
            "S_std": _each(scored, "standard deviation"),
            "S_ED": _each(scored, "expectation deviation"),
            "S_mean at most": scored.mean("mean leakage").upper,
            "leak@32": scored.mean("leak@k", parameter=32).upper,
            "P": _each(leaks, "leak probability"),
            "worst": leaks.worst("leak probability").upper,
            "leak@32 of P": leaks.mean("leak@k", parameter=32).upper,
            **kept,
        }
        if len(kept) > 1:
            found["R_avg"] = fmean(kept.values())
        return found | {"seconds": seconds}


def main() -> None:
    """Do what is asked of the size that is named, then print its table."""
    options = _options()
    if options.threads:
        torch.set_num_threads(options.threads)
    size = SIZES[options.size]
    task = load_benchmark(size.benchmark, data=options.data)
    folder = options.out / options.size
    device = "cuda" if torch.cuda.is_available() else "cpu"
    base = options.base or _untrained(folder / "models" / "untrained", task)
    study = Study(size, task, folder, options.data, base, device)
    for seed in options.seeds:
        names = size.ablations if options.ablations else (TARGET, CONTROL, *size.methods)
        for name in options.methods or names:
            if not options.table and (seed == options.seeds[0] or name in study.methods):
                study.run(name, seed)
    print(study.table())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("size", choices=SIZES)
    parser.add_argument("--out", type=Path, required=True, help="folder for models and runs")
    parser.add_argument("--base", help="the model that learns the data (builtin: made here)")
    parser.add_argument("--data", type=Path, help="folder of TOFU's JSON files")
    parser.add_argument("--methods", type=_words, help="some of them: NPO,CEL,control")
    parser.add_argument("--seeds", type=_numbers, default=(0,), help="of the unlearning: 0,1,2")
    parser.add_argument("--threads", type=int, help="threads for torch (default: its own choice)")
    parser.add_argument("--ablations", action="store_true", help="instead of the methods")
    parser.add_argument("--table", action="store_true", help="only print what is there")
    options = parser.parse_args()
    size = SIZES[options.size]
    known = (TARGET, CONTROL, *size.methods, *size.ablations)
    for name in options.methods or ():
        if name not in known:
            parser.error(f"no method {name!r} of {options.size}; there is {', '.join(known)}")
    if options.base is None and options.size != "builtin":
        parser.error(f"{options.size} needs --base: a model folder, or its name on the hub")
    return options


def _words(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _untrained(path: Path, task: Benchmark) -> str:
    write_untrained(path, [*task.prompts, *task.split("retain")], task.template, 0)
    return str(path)


def _slug(name: str, seed: int | str) -> str:
    """The folder of a model; of target and control there is one."""
    words = "".join(c if c.isalnum() else " " for c in name.lower()).split()
    return "-".join(words if name in (TARGET, CONTROL) else [*words, str(seed)])


def _with_centres(prompt: Prompt, centres: int | None) -> Prompt:
    """The prompt with so many texts to be held against, itself among them, made by rule."""
    if centres is None:
        return prompt
    return replace(prompt, paraphrases=tuple(rewritings(prompt.question, 0)[: centres - 1]))


def _each(rows: Estimates, quantity: Quantity, arm: str = TARGET) -> float:
    """The mean over the questions of one estimate."""
    return fmean(row.value for row in rows.each(quantity, arm=arm) if row.value is not None)


def _cell(values: Sequence[float]) -> str:
    """The mean over seeds, with the extremes where there are several."""
    digits = 0 if max(values) >= 10 else 3
    mean = f"{fmean(values):.{digits}f}"
    if len(values) == 1:
        return mean
    return f"{mean} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def _told(name: str) -> Progress:
    started = time.monotonic()

    def show(step: int, total: int, loss: float) -> None:
        if step % 5 == 0 or step == total:
            seconds = time.monotonic() - started
            print(f"{name} {step}/{total} {seconds:.0f} s {loss:.4f}", flush=True)

    return show


def _phase(name: str) -> Any:
    told: set[str] = set()

    def show(
        phase: str, done: float, total: float, unit: str = "", tokens: int = 0, **_: object
    ) -> None:
        mark = f"{phase} {int(10 * done / max(total, 1))}"
        if mark not in told:
            told.add(mark)
            print(f"{name}: {phase} {done:,.0f}/{total:,.0f} {unit}", flush=True)

    return show


if __name__ == "__main__":
    main()
