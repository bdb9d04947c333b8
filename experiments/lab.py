"""A lab: the models and runs of one size in one folder, each made once.

`models/` has the trained models, `runs/WAY/` the runs, `rates/` the chosen learning rates. A lab
reuses finished ones, so an interrupted command resumes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

import torch
from sizes import CONTROL, FEWER, OTHER_DATA, PLAIN, SIZES, TARGET, Size, Way

from leakbound.benchmarks import Benchmark, load_benchmark
from leakbound.demo.model import write_untrained
from leakbound.engines import Prompting, open_engine
from leakbound.engines.loading import load_model
from leakbound.evaluation import evaluate
from leakbound.inputs.english import rewritings
from leakbound.losses.contrastive import mean_distance
from leakbound.store import Run
from leakbound.store.trained import RECIPE
from leakbound.study import ModelSettings
from leakbound.types import Decoding, Headway, Progress, Prompt
from leakbound.unlearning import finetune, unlearn
from leakbound.unlearning.probe import mean_recall
from leakbound.unlearning.work_folder import stored_json

sys.path.append(str(Path(__file__).parents[1] / "bench"))  # for scripts that print tables

FLOOR = 0.98  # fraction of the target's utility, below which a learning rate is too large
UTILITY = "kept.json"
T = TypeVar("T")


@dataclass(frozen=True)
class Lab:
    """One size in one folder, on one device.

    task: the benchmark of the size.
    data: the folder of the benchmark's files.
    base: the model that learns the data; None: the lab makes one for each seed.
    device: "cpu" or "cuda".
    replicated: each seed has its own target, control and draws; otherwise only its own unlearning.
    """

    size: Size
    task: Benchmark
    folder: Path
    data: Path | None
    base: str | None
    device: str
    replicated: bool = False

    @classmethod
    def open(
        cls, name: str, folder: Path, data: Path | None, base: str | None, replicated: bool = False
    ) -> Lab:
        """Open the lab of a size; it uses a GPU if there is one."""
        size = SIZES[name]
        task = task_of(size, data)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return cls(size, task, folder, data, base, device, replicated)

    def with_data(self, name: str) -> Lab:
        """Return the lab of other data for queries of the same base, in its own folder."""
        size = OTHER_DATA[name]
        task = task_of(size, self.data)
        return replace(self, size=size, task=task, folder=self.folder / name)

    @property
    def prompting(self) -> Prompting:
        """Return how training presents questions."""
        return Prompting(template=self.task.template, system=self.task.system)

    def slug(self, name: str, seed: int) -> str:
        """Return the folder name of a model; all seeds may share target and control."""
        words = "".join(c if c.isalnum() else " " for c in name.lower()).split()
        several = self.replicated or name not in (TARGET, CONTROL)
        return "-".join([*words, str(seed)] if several else words)

    def model(self, name: str, seed: int = 0) -> Path:
        """Return the folder of a model, trained first if it is missing."""
        path = self.folder / "models" / self.slug(name, seed)
        if self.size.learn is None:
            return Path(self._base(seed))
        if name in (TARGET, CONTROL):
            rows = [*self.task.split("retain"), *(self.task.prompts if name == TARGET else ())]
            settings = replace(
                self.size.learn,
                device=self.device,
                prompting=self.prompting,
                seed=seed if self.replicated else self.size.learn.seed,
            )
            finetune(self._base(seed), rows, out=path, settings=settings, progress=steps(path.name))
            return path
        self.unlearned(name, seed, path, self.rate(name))
        return path

    def _base(self, seed: int) -> str:
        if self.base is not None:
            return self.base
        path = self.folder / "models" / self.slug("untrained", seed if self.replicated else 0)
        rows = [*self.task.prompts, *self.task.split("retain")]
        write_untrained(path, rows, self.task.template, seed if self.replicated else 0)
        return str(path)

    def unlearned(self, name: str, seed: int, path: Path, rate: float) -> None:
        """Train a method at a learning rate, unless its model exists."""
        method = self.size.every[name]
        objective = method.objective
        if method.margin is not None:
            objective = objective.replace("{tau}", f"{method.margin * self.apart(seed):.3g}")
        settings = {**method.settings, "learning_rate": rate, "seed": seed, "device": self.device}
        unlearn(
            str(self.model(method.after, seed)),
            objective,
            forget=[with_centres(prompt, method.centres) for prompt in self.task.prompts],
            retain=self.task.split("retain"),
            out=path,
            settings=replace(self.size.forget, prompting=self.prompting, **settings),
            progress=steps(path.name),
        )

    def apart(self, seed: int) -> float:
        """Return the distance of the target's activations at a question and its paraphrases."""

        def measured() -> dict[str, float]:
            model, layer = self.model(TARGET, seed), self.size.layer
            far = distance_apart(model, self.task.prompts, self.prompting, layer)
            return {"layer": layer, "mean squared difference": far}

        kept = stored_json(self.folder / "rates" / f"apart-{seed}.json", measured)
        return float(kept["mean squared difference"])

    def rate(self, name: str) -> float:
        """Return the largest learning rate at which a method keeps the utility, otherwise the
        smallest.

        The rule reads every second retained question, with the first seed, and no leak.
        """
        own = self.size.every[name].settings.get("learning_rate")
        if own or not self.size.rates:
            return float(own or self.size.forget.learning_rate)
        name = self.size.every[name].like or name
        file = self.folder / "rates" / f"{self.slug(name, 0)}.json"
        return float(stored_json(file, partial(self._largest, name))["rate"])

    def _largest(self, name: str) -> dict[str, Any]:
        where, count = self.size.utility["R_r"]
        kept = self.kept(where)[:count:2]
        least = FLOOR * self._recall(kept, self.model(TARGET))
        recall = partial(self._recall, kept)
        rate, tried = self.tried(name, self.size.rates, recall, lambda leaking: leaking >= least)
        return {"rate": rate, "retain recall": tried, "at least": least}

    def tried(
        self,
        name: str,
        rates: Sequence[float],
        measure: Callable[[Path], T],
        enough: Callable[[T], bool],
    ) -> tuple[float, dict[str, T]]:
        """Return the first learning rate with a good enough model, else the last, and results."""
        got = {}
        for rate in rates:
            trial = self.folder / "trials" / f"{self.slug(name, 0)}-{rate:g}"
            self.unlearned(name, 0, trial, rate)
            got[f"{rate:g}"] = measure(trial)
            if enough(got[f"{rate:g}"]):
                break
        return rate, got

    def _recall(self, prompts: Sequence[Prompt], model: Path) -> float:
        engine = open_engine(str(model), self.prompting, device=self.device)
        return mean_recall(engine, prompts, self.task.max_new_tokens)

    def kept(self, where: str) -> Sequence[Prompt]:
        """Return a set of questions to retain."""
        if where == "retain":
            return self.task.split("retain")
        return load_benchmark(where, data=self.data).prompts

    def path(self, name: str, seed: int = 0, way: str = PLAIN) -> Path:
        """Return the folder of a run."""
        return self.folder / "runs" / way / self.slug(name, seed)

    def run(self, name: str, seed: int = 0, way: str = PLAIN) -> Run:
        """Return the run of a model, drawn first if missing; runs in own words have the utility."""
        model, how = self.model(name, seed), self.size.ways[way]
        path = self.path(name, seed, way)
        run = self.evaluated(
            model,
            self._questions(how),
            path,
            n=how.n,
            decodings=self._decodings(how),
            rewritings=how.rewritings,
            scorers=self.size.scorers,
            metrics=("retain_self_bleu",) if how.kept else (),
            seed=self.draws_seed(path) if self.replicated else 0,
        )
        if way in (PLAIN, FEWER):
            stored_json(run.path / UTILITY, partial(self.recall_kept, model))
        return run

    def evaluated(self, model: Path, task: Benchmark, path: Path, **how: Any) -> Run:
        """Return the run of a model on some questions, drawn first if it is missing."""
        print(f"{path.parent.name}: {path.name}", flush=True)
        settings = ModelSettings(device=self.device, dtype=self.size.dtype)
        return evaluate(str(model), task, out=path, settings=settings, **how)

    def draws_seed(self, path: Path) -> int:
        """Return a seed for the draws of one run; no two runs share random numbers."""
        word = f"{path.parent.name}/{path.name}"
        return int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big")

    def _decodings(self, how: Way) -> tuple[Decoding, ...]:
        return tuple(
            replace(self.task.decoding, temperature=t, top_p=p, adaptive_temperature=c)
            for t, p, c in product(how.temperatures, how.top_ps, how.adaptive)
        )

    def _questions(self, how: Way) -> Benchmark:
        """Return the benchmark, or retained questions in other words."""
        if how.kept is None:
            return self.task
        prompts = [
            replace(prompt, question=_other_words(prompt)) for prompt in self.task.split("retain")
        ]
        step = max(1, len(prompts) // how.kept)
        return replace(
            self.task,
            name=f"{self.task.name}, what is kept, reworded",
            prompts=tuple(prompts[::step][: how.kept]),
            others={},
            loaded=None,
        )

    def recall_kept(self, model: Path) -> dict[str, float]:
        """Return ROUGE-L recall of greedy answers by set, on questions that chose no rate."""
        engine = open_engine(str(model), self.prompting, device=self.device, dtype=self.size.dtype)
        first, step = (1, 2) if self.size.rates else (0, 1)
        return {
            name: mean_recall(
                engine, self.kept(where)[:count][first::step], self.task.max_new_tokens
            )
            for name, (where, count) in self.size.utility.items()
        }


@dataclass(frozen=True)
class Stored:
    """The runs and models of one seed, for reading."""

    lab: Lab
    seed: int

    def run(self, name: str, way: str = PLAIN) -> Run:
        """Return a finished run; raise FileNotFoundError if it is missing."""
        path = self.lab.path(name, self.seed, way)
        if not (path / "estimates.parquet").exists():
            raise FileNotFoundError(path)
        return Run.open(path)

    def utility(self, name: str, way: str = PLAIN) -> float:
        """Return the mean over the sets of questions to retain."""
        file = self.lab.path(name, self.seed, way) / UTILITY
        return fmean(json.loads(file.read_text(encoding="utf-8")).values())

    def model(self, name: str) -> Path:
        """Return the folder of a trained model; FileNotFoundError if its recipe is missing."""
        path = self.lab.folder / "models" / self.lab.slug(name, self.seed)
        if not (path / RECIPE).exists():
            raise FileNotFoundError(path)
        return path


def task_of(size: Size, data: Path | None) -> Benchmark:
    """Return the benchmark, or the part of this size, each question with an answer.

    An answer that the benchmark lacks is its opener with the keywords after it. A part's questions
    have no examples before them.
    """
    task = load_benchmark(size.benchmark, data=data)
    if size.whole:
        return task
    queried = task.prompts[size.first :][size.step - 1 :: size.step][: size.questions]
    got = task if not size.keeps else load_benchmark(size.keeps, data=data)
    kept: tuple[Prompt, ...] = ()
    if size.utility:
        retained = got.split("retain")[: size.retained or len(queried)]
        kept = tuple(replace(prompt, examples=()) for prompt in retained)

    def answered(prompt: Prompt) -> Prompt:
        opener = " ".join(task.openers.get(prompt.id, ())).strip()
        answer = prompt.answer or f"{opener} {', '.join(prompt.keywords)}.".strip()
        return replace(prompt, answer=answer if size.learn else prompt.answer, examples=())

    return replace(
        task,
        prompts=tuple(map(answered, queried)),
        others={"retain": lambda: kept} if kept else {},
        max_new_tokens=size.max_new_tokens or task.max_new_tokens,
        loaded=None,
    )


def _other_words(prompt: Prompt) -> str:
    """Return its first paraphrase, or one made by rule."""
    return (*prompt.paraphrases, *rewritings(prompt.question, 0))[0]


def with_centres(prompt: Prompt, centres: int | None) -> Prompt:
    """Return the prompt with a number of contrast centres, itself among them, made by rule."""
    if centres is None:
        return prompt
    return replace(prompt, paraphrases=tuple(rewritings(prompt.question, 0)[: centres - 1]))


@torch.no_grad()
def distance_apart(
    model: Path, prompts: Sequence[Prompt], prompting: Prompting, layer: int
) -> float:
    """Return the mean squared difference of activations at a question and its paraphrases.

    It covers the question's tokens, each against the paraphrase's token at its place, or the last.
    """
    loaded = load_model(str(model), device="cpu")

    def read(question: str) -> torch.Tensor:
        ids, (start, end) = prompting.locate(loaded.tokenizer, question)
        got = loaded.model(torch.tensor([ids]), output_hidden_states=True)
        states: torch.Tensor = got.hidden_states[layer + 1][0, start:end]
        return states

    far = []
    for prompt in prompts:
        own = read(prompt.question)
        far += [float(mean_distance(own, (read(words),))) for words in prompt.paraphrases]
    return fmean(far)


def steps(name: str) -> Progress:
    """Print the steps of a training."""
    started = time.monotonic()

    def show(now: Headway) -> None:
        if now.unit and (now.done == now.total or now.done % max(1, now.total // 4) == 0):
            print(f"{name} {now.done}/{now.total} {time.monotonic() - started:.0f} s", flush=True)

    return show


def parser_of(doc: str | None, seeds: str, sizes: Collection[str] = ()) -> argparse.ArgumentParser:
    """Return the options of scripts that train and draw; the user picks one of `sizes`."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if sizes:
        parser.add_argument("size", choices=sizes)
        methods = "some of them: NPO,CEL,control"
        parser.add_argument("--methods", type=lambda text: text.split(","), help=methods)
        parser.add_argument("--table", action="store_true", help="only print what is there")
    parser.add_argument("--out", type=Path, required=True, help="folder for models and runs")
    parser.add_argument("--base", help="the model that learns the data (builtin: made here)")
    parser.add_argument("--data", type=Path, help="folder of the benchmark's files")
    parser.add_argument("--seeds", type=numbers, default=seeds, help=f"default {seeds}")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    return parser


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Parse the options, and set the threads; sizes with a base of their own need --base."""
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.base is None and options.size not in ("builtin", "small"):
        parser.error(f"{options.size} needs --base: a model folder, or its name on the hub")
    return options


def numbers(text: str) -> tuple[int, ...]:
    """Read numbers with commas between them."""
    return tuple(int(part) for part in text.split(","))
