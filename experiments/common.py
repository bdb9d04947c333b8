"""What the experiments share: models trained once, runs made once, and what both cost.

A `Lab` is one size in one folder: `models/` holds what was trained, `runs/HOW/` what was drawn of
it, `rates/` which learning rates were chosen. Whatever is there is not made again, so a command
that was stopped goes on where it was; what was begun is finished by the verbs themselves.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from sizes import BESIDE, CONTROL, FEWER, PLAIN, SIZES, TARGET, Asked, Method, Size

from leakbound.benchmarks import Benchmark, load_benchmark
from leakbound.demo.model import write_untrained
from leakbound.engines import Prompting, open_engine
from leakbound.engines.loading import load_model
from leakbound.evaluation import evaluate
from leakbound.evaluation.drawing.readings import retain_recall
from leakbound.inputs.english import rewritings
from leakbound.store import Run, write_json
from leakbound.store.trained import RECIPE
from leakbound.study import ModelSettings
from leakbound.types import Decoding, Headway, Prompt
from leakbound.unlearning import Progress, finetune, unlearn

FLOOR = 0.98  # of the target's utility, below which a learning rate is too large
UTILITY = "kept.json"


@dataclass(frozen=True)
class Lab:
    """One size in one folder, on one device.

    size: what is trained and asked.
    task: its benchmark.
    folder: where models and runs are.
    data: the folder of the benchmark's files.
    base: the model that learns the data; None: one is made for each seed.
    device: "cpu" or "cuda".
    replicated: each seed has a target, a control and draws of its own; else only unlearning does.
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
        cls,
        name: str,
        folder: Path,
        *,
        data: Path | None = None,
        base: str | None = None,
        replicated: bool = False,
    ) -> Lab:
        """The lab of a size in a folder of its own; a GPU is used where there is one."""
        size = SIZES[name]
        task = task_of(size, data)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return cls(size, task, folder, data, base, device, replicated)

    def beside(self, name: str) -> Lab:
        """The lab of other data that the same base is asked about, in a folder of its own."""
        size = BESIDE[name]
        task = task_of(size, self.data)
        return replace(self, size=size, task=task, folder=self.folder / name)

    @property
    def prompting(self) -> Prompting:
        """How questions are put in training."""
        return Prompting(template=self.task.template, system=self.task.system)

    def slug(self, name: str, seed: int) -> str:
        """The folder of a model; of target and control there may be one for all seeds."""
        words = "".join(c if c.isalnum() else " " for c in name.lower()).split()
        several = self.replicated or name not in (TARGET, CONTROL)
        return "-".join([*words, str(seed)] if several else words)

    def model(self, name: str, seed: int = 0) -> Path:
        """The folder of a model, trained first where it is not there yet."""
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
            finetune(self._base(seed), rows, out=path, settings=settings, progress=told(path.name))
            return path
        self._unlearned(name, seed, path, self.rate(name))
        return path

    def _base(self, seed: int) -> str:
        if self.base is not None:
            return self.base
        path = self.folder / "models" / self.slug("untrained", seed if self.replicated else 0)
        rows = [*self.task.prompts, *self.task.split("retain")]
        write_untrained(path, rows, self.task.template, seed if self.replicated else 0)
        return str(path)

    def _unlearned(self, name: str, seed: int, path: Path, rate: float) -> None:
        method = self.size.every[name]
        settings = {"learning_rate": rate, **method.settings, "seed": seed, "device": self.device}
        unlearn(
            str(self.model(method.after, seed)),
            self._objective(method, seed),
            forget=[with_centres(prompt, method.centres) for prompt in self.task.prompts],
            retain=self.task.split("retain"),
            out=path,
            settings=replace(self.size.forget, prompting=self.prompting, **settings),
            progress=told(path.name),
        )

    def _objective(self, method: Method, seed: int) -> str:
        if method.margin is None:
            return method.objective
        apart = self.apart(seed)
        return method.objective.replace("{tau}", f"{method.margin * apart:.3g}")

    def apart(self, seed: int) -> float:
        """How far apart the target's activations are of a question and its paraphrases."""
        file = self.folder / "rates" / f"apart-{seed}.json"
        if not file.exists():
            layer = self.size.layer
            far = distance_apart(self.model(TARGET, seed), self.task.prompts, self.prompting, layer)
            write_json(file, {"layer": layer, "mean squared difference": far})
        return float(json.loads(file.read_text(encoding="utf-8"))["mean squared difference"])

    def rate(self, name: str) -> float:
        """The largest learning rate at which a method keeps the utility, else the smallest.

        Looked at on every second question of what is to be kept, with the first seed; no leak is.
        """
        if not self.size.rates:
            return self.size.forget.learning_rate
        name = self.size.every[name].like or name
        file = self.folder / "rates" / f"{self.slug(name, 0)}.json"
        if not file.exists():
            write_json(file, self._largest(name))
        return float(json.loads(file.read_text(encoding="utf-8"))["rate"])

    def _largest(self, name: str) -> dict[str, Any]:
        where, count = self.size.utility["R_r"]
        kept = self.kept(where)[:count:2]
        least, tried = FLOOR * self._recall(self.model(TARGET), kept), {}
        for rate in self.size.rates:
            trial = self.folder / "trials" / f"{self.slug(name, 0)}-{rate:g}"
            self._unlearned(name, 0, trial, rate)
            tried[f"{rate:g}"] = self._recall(trial, kept)
            if tried[f"{rate:g}"] >= least:
                break
        return {"rate": rate, "retain recall": tried, "at least": least}

    def _recall(self, model: Path, prompts: Sequence[Prompt]) -> float:
        engine = open_engine(str(model), self.prompting, device=self.device)
        return retain_recall(engine, prompts, self.task.max_new_tokens)

    def kept(self, where: str) -> Sequence[Prompt]:
        """A set of what should be kept."""
        if where == "retain":
            return self.task.split("retain")
        return load_benchmark(where, data=self.data).prompts

    def path(self, name: str, seed: int = 0, asked: str = PLAIN) -> Path:
        """Where a run of a model is, or will be."""
        return self.folder / "runs" / asked / self.slug(name, seed)

    def run(self, name: str, seed: int = 0, asked: str = PLAIN) -> Run:
        """The run of a model, drawn where that was not done yet; those in its own words have the
        utility."""
        model, how = self.model(name, seed), self.size.asked[asked]
        path = self.path(name, seed, asked)
        run = evaluate(
            str(model),
            self._questions(how),
            out=path,
            n=how.n,
            decodings=self._decodings(how),
            rewritings=how.rewritings,
            scorers=self.size.scorers,
            metrics=("retain_self_bleu",) if how.kept else (),
            seed=self.draws_seed(path) if self.replicated else 0,
            settings=ModelSettings(device=self.device, dtype=self.size.dtype),
            progress=phases(f"{asked} {path.name}"),
        )
        if asked in (PLAIN, FEWER) and not (run.path / UTILITY).exists():
            write_json(run.path / UTILITY, self._utility(model))
        return run

    def draws_seed(self, path: Path) -> int:
        """A seed for the draws of one run: no two share random numbers."""
        word = f"{path.parent.name}/{path.name}"
        return int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big")

    def _decodings(self, how: Asked) -> tuple[Decoding, ...]:
        return tuple(
            replace(self.task.decoding, temperature=t, top_p=p, adaptive_temperature=c)
            for t, p, c in product(how.temperatures, how.top_ps, how.adaptive)
        )

    def _questions(self, how: Asked) -> Benchmark:
        """The benchmark, or retained questions in other words."""
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

    def _utility(self, model: Path) -> dict[str, float]:
        """By set: ROUGE-L recall of greedy answers, where a rate was chosen on the other half."""
        engine = open_engine(str(model), self.prompting, device=self.device, dtype=self.size.dtype)
        first, step = (1, 2) if self.size.rates else (0, 1)
        return {
            name: retain_recall(
                engine, self.kept(where)[:count][first::step], self.task.max_new_tokens
            )
            for name, (where, count) in self.size.utility.items()
        }


@dataclass(frozen=True)
class Stored:
    """What a lab has stored of one seed: read, never made."""

    lab: Lab
    seed: int

    def run(self, name: str, asked: str = PLAIN) -> Run:
        """A finished run; FileNotFoundError where it is not there yet."""
        path = self.lab.path(name, self.seed, asked)
        if not (path / "estimates.parquet").exists():
            raise FileNotFoundError(path)
        return Run.open(path)

    def utility(self, name: str, asked: str = PLAIN) -> float:
        """The mean over the sets of what should be kept."""
        file = self.lab.path(name, self.seed, asked) / UTILITY
        return fmean(kept_recall(file).values())

    def model(self, name: str) -> Path:
        """The folder of a trained model; FileNotFoundError where its recipe is not there."""
        path = self.lab.folder / "models" / self.lab.slug(name, self.seed)
        if not (path / RECIPE).exists():
            raise FileNotFoundError(path)
        return path

    @cached_property
    def scorers(self) -> tuple[str, ...]:
        """By which its runs are scored."""
        return self.lab.size.scorers


@dataclass(frozen=True)
class Cost:
    """What was spent: seconds on the clock, and prefixes forwarded in drawing."""

    training: float = 0.0
    drawing: float = 0.0
    forwards: int = 0
    draws: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.training + other.training,
            self.drawing + other.drawing,
            self.forwards + other.forwards,
            self.draws + other.draws,
        )


def kept_recall(file: Path) -> dict[str, float]:
    """ROUGE-L recall of greedy answers on each set of what should be kept, as a run has it."""
    found: dict[str, float] = json.loads(file.read_text(encoding="utf-8"))
    return found


def cost_of(run: Run) -> Cost:
    """Of a run's own draws, as its parts recorded it."""
    used = [arm.usage for arm in run.arms.values()]
    return Cost(
        drawing=sum(each.seconds for each in used),
        forwards=sum(each.forwards for each in used),
        draws=sum(each.draws for each in used),
    )


def cost_of_training(model: Path) -> Cost:
    """Of a model, as its log has it; nothing of one that was not trained here."""
    if not model.exists():
        return Cost()
    lines = (model / "training.jsonl").read_text(encoding="utf-8").splitlines()
    return Cost(training=float(json.loads(lines[-1])["seconds"]))


def task_of(size: Size, data: Path | None) -> Benchmark:
    """What is asked: the benchmark, or what the size takes of it, each question with an answer.

    Where the benchmark has no answers, they are its openers with the keywords behind them. Of what
    is taken, no question has examples before it.
    """
    task = load_benchmark(size.benchmark, data=data)
    if size.whole:
        return task
    asked = task.prompts[size.first :][size.step - 1 :: size.step][: size.questions]
    found = task if not size.keeps else load_benchmark(size.keeps, data=data)
    kept: tuple[Prompt, ...] = ()
    if size.utility:
        retained = found.split("retain")[: size.retained or len(asked)]
        kept = tuple(replace(prompt, examples=()) for prompt in retained)

    def answered(prompt: Prompt) -> Prompt:
        opener = " ".join(task.openers.get(prompt.id, ())).strip()
        answer = prompt.answer or f"{opener} {', '.join(prompt.keywords)}.".strip()
        return replace(prompt, answer=answer if size.learn else prompt.answer, examples=())

    return replace(
        task,
        prompts=tuple(map(answered, asked)),
        others={"retain": lambda: kept} if kept else {},
        max_new_tokens=size.max_new_tokens or task.max_new_tokens,
        loaded=None,
    )


def _other_words(prompt: Prompt) -> str:
    """Its first paraphrase, or one made by rule."""
    return (*prompt.paraphrases, *rewritings(prompt.question, 0))[0]


def with_centres(prompt: Prompt, centres: int | None) -> Prompt:
    """The prompt with so many texts to be held against, itself among them, made by rule."""
    if centres is None:
        return prompt
    return replace(prompt, paraphrases=tuple(rewritings(prompt.question, 0)[: centres - 1]))


@torch.no_grad()
def distance_apart(
    model: Path, prompts: Sequence[Prompt], prompting: Prompting, layer: int
) -> float:
    """The mean squared difference of activations at a question and at its paraphrases.

    Over the question's own tokens, each beside the one at its place in the paraphrase or the last.
    """
    loaded = load_model(str(model), device="cpu")

    def read(question: str) -> torch.Tensor:
        ids, (start, end) = prompting.locate(loaded.tokenizer, question)
        found = loaded.model(torch.tensor([ids]), output_hidden_states=True)
        states: torch.Tensor = found.hidden_states[layer + 1][0, start:end]
        return states

    far = []
    for prompt in prompts:
        own = read(prompt.question)
        for words in prompt.paraphrases:
            other = read(words)
            place = torch.arange(len(own)).clamp(max=len(other) - 1)
            far.append(float((own - other[place]).square().mean()))
    return fmean(far)


def told(name: str) -> Progress:
    """Prints the steps of a training."""
    started = time.monotonic()

    def show(step: int, total: int, loss: float) -> None:
        if step == total or step % max(1, total // 4) == 0:
            seconds = time.monotonic() - started
            print(f"{name} {step}/{total} {seconds:.0f} s {loss:.4f}", flush=True)

    return show


def phases(name: str) -> Any:
    """Prints the phases of an evaluation."""
    known: set[str] = set()

    def show(now: Headway) -> None:
        mark = f"{now.phase} {int(2 * now.done / max(now.total, 1))}"
        if mark not in known:
            known.add(mark)
            so_far = f"{now.done:,.0f}/{now.total:,.0f} {now.unit}"
            print(f"{name}: {now.phase} {so_far}", flush=True)

    return show
