"""Race engines that draw one distribution: the forest, `generate`, vLLM, OpenVINO, CTranslate2.

Each engine draws n completions of a few questions at T = 1, untruncated, in float32, in its own
process, in turn. A ratio is taken in each round; the table has medians, and the range of the best
other engine. Loading, converting and a first small draw are not timed.

Two-sample Kolmogorov-Smirnov tests against `generate` check that all draw one distribution: of the
lengths, and of the log-probabilities under one float32 forward of transformers.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats
from transformers import AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar

from leakbound.benchmarks import load_benchmark
from leakbound.demo import BENCHMARK
from leakbound.engines import Prompting
from leakbound.engines.branching import prefix_model
from leakbound.engines.loading import load_model
from leakbound.sampling import OutputTree, Root, force
from leakbound.types import Decoding
from peers.engine_worker import Drawn, Work
from runner import MODELS, demo_models, options, report

WORKER = Path(__file__).parent / "peers" / "engine_worker.py"
FOREST, GENERATE = "forest", "generate"
SYSTEM = "You are a helpful assistant."  # SmolLM2 learnt its answers after it
PAUSE = 0.3  # seconds between engines: idle threads of the last one still spin
CHECKED = 256  # draws of each prompt whose log-probabilities are compared
OTHERS = {"vLLM": "vllm", "OpenVINO": "openvino", "CTranslate2": "ctranslate2"}
CONVERT = {  # to float32, by its own interpreter: script arguments: source, target
    "openvino": """
import sys
from optimum.intel import OVModelForCausalLM
how = {"export": True, "compile": False, "load_in_8bit": False}
OVModelForCausalLM.from_pretrained(sys.argv[1], **how).save_pretrained(sys.argv[2])
""",
    "ctranslate2": """
import sys
from types import SimpleNamespace
from ctranslate2.converters import TransformersConverter
from transformers import AutoConfig

class ByIds(TransformersConverter):
    def load_tokenizer(self, _, model, **how):  # it wants texts of tokens: these are their ids
        ids = {str(i): i for i in range(AutoConfig.from_pretrained(model).vocab_size)}
        special = dict.fromkeys(("bos_token", "eos_token", "unk_token"), "0")  # none is used
        return SimpleNamespace(get_vocab=lambda: ids, **special)

ByIds(sys.argv[1]).convert(sys.argv[2], quantization="float32")
""",
}


@dataclass(frozen=True)
class Contest:
    """A model, and the work that every engine does on it."""

    name: str
    folder: Path
    work: Work

    @property
    def label(self) -> str:
        return f"{self.name}, n = {self.work.n:,}"


@dataclass(frozen=True)
class Engine:
    """An engine: its name in the table, its name in engine_worker.py, its interpreter."""

    name: str
    worker: str
    python: str


@dataclass
class Times:
    """The seconds and tokens of an engine, one per round, and its draws of the first round."""

    seconds: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    drawn: Drawn = field(default_factory=list)


class Process:
    """An engine's process; its messages go to a file, whose last line an error shows."""

    def __init__(self, engine: Engine, threads: int, scratch: Path) -> None:
        self.log = scratch / f"{engine.name}.log"
        self.running = subprocess.Popen(
            [engine.python, str(WORKER), engine.worker, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log.open("w"),
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        )

    def close(self) -> None:
        with suppress(BrokenPipeError):
            self.running.stdin.close()  # type: ignore[union-attr]
        self.running.wait()

    def ask(self, **what: Any) -> dict[str, Any]:
        """Send a request and wait for its answer; RuntimeError if the process ended."""
        with suppress(BrokenPipeError):  # then the answer is missing too
            print(json.dumps(what), file=self.running.stdin, flush=True)
        line = self.running.stdout.readline()  # type: ignore[union-attr]
        if not line:
            lines = self.log.read_text().strip().splitlines()
            raise RuntimeError(lines[-1] if lines else "it ended")
        answer: dict[str, Any] = json.loads(line)
        return answer


class Ruler:
    """Log-probabilities of completions in float32: one model reads the draws of all engines."""

    def __init__(self, folder: Path, work: Work) -> None:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        seam, _ = prefix_model(model, frozenset(work.ends))
        self.tree = OutputTree(seam, Decoding(max_new_tokens=work.new))

    def of(self, prompt: list[int], draws: Sequence[list[int]]) -> np.ndarray:
        """One per draw; equal draws of a prompt are read once."""
        outputs = [(0, tuple(draw)) for draw in draws]
        leaves = force(self.tree, [Root("", tuple(prompt))], outputs, beginnings=True)
        return np.array([np.nan if leaf is None else leaf.logprob for leaf in leaves])


def read(work: Work, ruler: Ruler, drawn: Drawn, seed: int = 0) -> list[np.ndarray]:
    """Lengths of all draws and log-probabilities of some, of each prompt in turn."""
    random, got = np.random.default_rng(seed), []
    for prompt, draws in zip(work.prompts, drawn, strict=True):
        # Shuffled: the forest gives equal ones together. Rounded: they must tie.
        some = [draws[i] for i in random.permutation(len(draws))[:CHECKED]]
        got += [np.array([*map(len, draws)]), ruler.of(prompt, some).round(3)]
    return got


def same_distribution(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> list[float]:
    """Return p-values of equal distributions, of lengths and log-probabilities of each prompt."""
    pairs = zip(ours, theirs, strict=True)
    return [float(stats.ks_2samp(a, b, method="asymp").pvalue) for a, b in pairs]


def form(contest: Contest, engine: Engine, scratch: Path) -> Path:
    """Return the model in the engine's format, converted once."""
    if engine.worker not in CONVERT:
        return contest.folder
    out = scratch / "forms" / contest.name.replace(" ", "-").replace(",", "") / engine.worker
    out.parent.mkdir(parents=True, exist_ok=True)
    if not out.exists():
        script = [engine.python, "-c", CONVERT[engine.worker], str(contest.folder), str(out)]
        with (scratch / "convert.log").open("a") as log:
            subprocess.run(script, stdout=log, stderr=log, check=False)
    return out


def race(
    contest: Contest, engines: Sequence[Engine], threads: int, rounds: int, scratch: Path
) -> tuple[dict[str, Times], dict[str, str]]:
    """Time rounds of all engines in turn; return the times, and why an engine is left out."""
    work, failed = asdict(contest.work), dict[str, str]()
    got = {engine.name: Times() for engine in engines}
    with ExitStack() as stack:
        live = {
            engine: stack.enter_context(closing(Process(engine, threads, scratch)))
            for engine in engines
        }
        for seed, (engine, process) in product(range(-1, rounds), live.items()):
            if engine.name in failed:
                continue
            try:
                if seed < 0:
                    process.ask(model=str(form(contest, engine, scratch)), work=work)
                    process.ask(work=work | {"n": min(32, contest.work.n)})
                    continue
                time.sleep(PAUSE)
                answer = process.ask(work=work | {"seed": seed})
            except RuntimeError as error:
                failed[engine.name] = str(error)
                continue
            times = got[engine.name]
            times.seconds.append(answer["seconds"])
            times.tokens.append(answer["forwarded"] or needed(contest.work, answer["drawn"]))
            times.drawn = times.drawn or answer["drawn"]
    return {name: times for name, times in got.items() if name not in failed}, failed


def needed(work: Work, drawn: Drawn) -> int:
    """Return the tokens to forward if draws share only their prompt; the last one needs none."""
    return sum(map(len, work.prompts)) + sum(len(x) - 1 for each in drawn for x in each)


def contests(args: argparse.Namespace) -> Iterator[Contest]:
    """Yield the chosen models of the demo's four and SmolLM2's, at each n."""
    task = load_benchmark(BENCHMARK)
    every = [
        (f"demo, {label}", path, task, Prompting(template=task.template), 48)
        for label, path in demo_models(args.models).items()
    ]
    for name in ("target", "npo", "control") if args.smollm2 else ():
        tofu = load_benchmark("tofu:forget01", data=args.data)
        chat = Prompting(system=SYSTEM)
        every.append((f"SmolLM2, {name}", args.smollm2 / name, tofu, chat, args.tokens))
    for name, path, benchmark, prompting, new in every:
        if any(fnmatchcase(name, pattern) for pattern in args.only):
            loaded = load_model(str(path))
            step = -(-len(benchmark.prompts) // args.questions)
            prompts = [p.question for p in benchmark.prompts[::step]]
            ids = [prompting.encode(loaded.tokenizer, question) for question in prompts]
            for n in args.n:
                yield Contest(name, path, Work(ids, n, new, sorted(loaded.eos_token_ids)))


def row(contest: Contest, measured: dict[str, Times]) -> dict[str, Any]:
    """Return a row: ratios to the forest's time, and the smallest p-value of each engine."""
    forest = np.array(measured[FOREST].seconds)
    saving = needed(contest.work, measured[FOREST].drawn) / measured[FOREST].tokens[0]
    made: dict[str, Any] = {"model": contest.label, "saving": f"{saving:.1f}×"}
    ruler = Ruler(contest.folder, contest.work)
    plain = read(contest.work, ruler, measured[GENERATE].drawn)
    for name, times in measured.items():
        ratio = np.median(np.array(times.seconds) / forest)
        made[name] = f"{np.median(forest):.2f} s" if name == FOREST else f"{ratio:.1f}×"
        if name != GENERATE:
            same = same_distribution(plain, read(contest.work, ruler, times.drawn))
            made[name] += f", p {min(same):.3f}"
    others = [times.seconds for name, times in measured.items() if name != FOREST]
    best = np.min(others, axis=0) / forest
    made["best other"] = f"**{np.median(best):.2g}×** ({best.min():.2g} to {best.max():.2g})"
    return made


def main(doc: str | None) -> int:
    """Race the engines whose interpreter is given."""
    args = options(
        doc,
        models=MODELS,
        smollm2=(Path, "a folder with target, npo and control"),
        data=(str, "folder of TOFU's files"),
        tokens=(8, "of a completion of SmolLM2"),
        threads=torch.get_num_threads(),
        rounds=3,
        questions=(3, "of each model, at most"),
        n=([1024], "draws of each question"),
        **{worker: (str, f"interpreter that has {worker}") for worker in OTHERS.values()},
        only=(["*"], "models by name, as 'demo, full' or '*control'"),
    )
    torch.set_num_threads(args.threads)
    disable_progress_bar()
    engines = [Engine(FOREST, "forest", sys.executable)]
    engines += [Engine(GENERATE, "transformers", sys.executable)]
    for name, worker in OTHERS.items():
        if python := getattr(args, worker):
            engines.append(Engine(name, worker, python))
    print(f"{args.threads} threads, {args.rounds} rounds, times the forest's\n", flush=True)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for contest in contests(args):
            got, failed = race(contest, engines, args.threads, args.rounds, Path(scratch))
            rows.append(row(contest, got))
            for name, why in failed.items():
                print(f"{name} left out of {contest.label}: {why}")
            print(f"{contest.label}: done", file=sys.stderr, flush=True)
    report(args.json, rows)
    return 0
