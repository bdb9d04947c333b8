"""One law drawn by several engines: the forest, `generate`, vLLM, OpenVINO, CTranslate2, llama.cpp.

    python bench/engines.py [--models demo-run/models] [--smollm2 FOLDER --data TOFU] [-n N ...]
        [--questions 3] [--threads 2] [--rounds 3] [--vllm PYTHON] [--openvino PYTHON]
        [--ctranslate2 PYTHON] [--llama PYTHON] [--only PATTERN ...] [--json FILE]

Every engine draws n completions of a few questions at T = 1, untruncated, in float32, in a process
of its own; an engine that is not given is left out. PYTHON is the interpreter of an environment
that has vllm; openvino-genai and optimum-intel; ctranslate2, torch and transformers; or
llama-cpp-python (LLAMA_CPP_LIB_PATH may name another build of llama.cpp). FOLDER has SmolLM2's
`target` and `control` of experiments/smollm2.py, and `npo`, the target unlearned. The engines draw
in turn, a ratio is taken in each round; told are medians, and of the best other also the smallest
and the largest. Loading, converting and a first small draw are not timed. A share is what the
machine's own matrix products of the same weights, 256 rows at once, by MKL or oneDNN, would take
for the tokens that were needed, of the time taken: distinct prefixes for the forest, every draw's
tokens for the rest.

That all draw from one law is checked by two-sample Kolmogorov-Smirnov tests against `generate`, of
the lengths and of the log-probabilities under one float32 forward of transformers, and by a
chi-square test against the exact law on a model of two tokens. Q8_0 weights are another law: their
column is for comparison, and no other row counts it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM
from transformers.utils.logging import disable_progress_bar

from leakbound.benchmarks import load_benchmark
from leakbound.demo import BENCHMARK
from leakbound.engines import Prompting
from leakbound.engines.loading import load_model
from leakbound.types import Prompt
from peers.engine_worker import Drawn, Work
from peers.to_gguf import write_gguf
from runner import MODELS, demo_models, keep, options

PEERS = Path(__file__).parent / "peers"
FOREST, GENERATE, QUANTISED = "forest", "generate", "llama.cpp q8 †"
SYSTEM = "You are a helpful assistant."  # SmolLM2 learnt its answers behind it
ROWS = 256  # of the matrix products that shares are taken of
PAUSE = 0.3  # seconds between engines: idle threads of the one before still spin

OTHERS = (  # column, option and worker, the model's form
    ("vLLM", "vllm", "folder"),
    ("OpenVINO", "openvino", "openvino"),
    ("CTranslate2", "ctranslate2", "ctranslate2"),
    ("llama.cpp", "llama", "f32"),
    (QUANTISED, "llama", "q8"),
)
CONVERT = {  # to float32, by its own interpreter: a script's arguments are from where and to where
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
    def load_tokenizer(self, _, model, **how):  # it asks for texts of tokens: these are their ids
        ids = {str(i): i for i in range(AutoConfig.from_pretrained(model).vocab_size)}
        special = dict.fromkeys(("bos_token", "eos_token", "unk_token"), "0")  # none is used
        return SimpleNamespace(get_vocab=lambda: ids, **special)

ByIds(sys.argv[1]).convert(sys.argv[2], quantization="float32")
""",
}


@dataclass(frozen=True)
class Contest:
    """A model and what is drawn from it.

    Attributes:
        name: of its row.
        folder: as transformers writes it.
        work: prompts, draws, most tokens.
        checked: draws of each prompt whose log-probabilities are compared.
    """

    name: str
    folder: Path
    work: Work
    checked: int = 1024

    @property
    def label(self) -> str:
        """Its name and draws, which no other has."""
        return f"{self.name}, n = {self.work.n:,}"


@dataclass(frozen=True)
class Engine:
    """An engine beside the others.

    Attributes:
        name: of its column.
        worker: what engine_worker.py calls it.
        python: its interpreter.
        form: the model's form it reads: `folder`, `f32`, `q8`, or one of `CONVERT`.
    """

    name: str
    worker: str
    python: str
    form: str = "folder"


@dataclass
class Times:
    """What an engine took, a value a round, and its draws of the first one."""

    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    drawn: Drawn = field(default_factory=list)


class Process:
    """An engine's process; what it says goes to a file, whose end is shown where it fails."""

    def __init__(self, engine: Engine, threads: int, scratch: Path) -> None:
        self.name = engine.name
        self.said = scratch / f"{engine.name}.log"
        self.running = subprocess.Popen(
            [engine.python, str(PEERS / "engine_worker.py"), engine.worker, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said.open("w"),
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        )

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(BrokenPipeError):
            self.running.stdin.close()  # type: ignore[union-attr]
        self.running.wait()

    def tell(self, **what: Any) -> None:
        """Ask for something; `answer` waits for it."""
        with suppress(BrokenPipeError):  # `answer` says why
            print(json.dumps(what), file=self.running.stdin, flush=True)

    def answer(self) -> dict[str, Any]:
        """Raises RuntimeError with its last line where the process ended."""
        line = self.running.stdout.readline()  # type: ignore[union-attr]
        if not line:
            said = self.said.read_text().strip().splitlines()
            raise RuntimeError(said[-1] if said else "it ended")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, **what: Any) -> dict[str, Any]:
        """Both."""
        self.tell(**what)
        return self.answer()


class Ruler:
    """Log-probabilities of completions: a float32 forward of transformers, summed in float64."""

    def __init__(self, folder: Path) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.known: dict[tuple[int, ...], dict[tuple[int, ...], float]] = defaultdict(dict)

    @torch.inference_mode()
    def of(self, prompt: list[int], draws: Sequence[list[int]]) -> np.ndarray:
        """One a draw; equal draws of a prompt are read once, and the prompt itself."""
        known = self.known[tuple(prompt)]
        distinct = sorted({tuple(draw) for draw in draws} - known.keys(), key=len)
        if distinct:
            rows = max(1, 2**24 // (len(distinct[-1]) * self.model.config.vocab_size))
            start = self.model(torch.tensor([prompt]), logits_to_keep=1)
            for first in range(0, len(distinct), rows):
                part = distinct[first : first + rows]
                known |= dict(zip(part, self._read(start, part), strict=True))
        return np.array([known[tuple(draw)] for draw in draws])

    def _read(self, start: Any, part: Sequence[tuple[int, ...]]) -> list[float]:
        longest = max(map(len, part))
        new = torch.tensor([[*draw] + [0] * (longest - len(draw)) for draw in part])
        logits = start.logits.expand(len(part), 1, -1)
        if longest > 1:
            cache = deepcopy(start.past_key_values)
            cache.batch_repeat_interleave(len(part))
            rest = self.model(new[:, :-1], past_key_values=cache).logits
            logits = torch.cat([logits, rest], 1)
        each = logits.double().log_softmax(-1).gather(2, new[..., None])[..., 0]
        inside = torch.arange(longest) < torch.tensor([[len(draw)] for draw in part])
        found: list[float] = (each * inside).sum(1).tolist()
        return found


def read(contest: Contest, ruler: Ruler, drawn: Drawn, seed: int = 0) -> list[np.ndarray]:
    """Lengths of all draws and log-probabilities of some, of each prompt in turn."""
    random, found = np.random.default_rng(seed), []
    for prompt, draws in zip(contest.work.prompts, drawn, strict=True):
        # Shuffled: the forest gives equal ones together. Rounded: they must tie.
        some = [draws[i] for i in random.permutation(len(draws))[: contest.checked]]
        found += [np.array([*map(len, draws)]), ruler.of(prompt, some).round(3)]
    return found


def same_law(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> list[float]:
    """p-values that both were drawn from one law, lengths and log-probabilities of each prompt."""
    pairs = zip(ours, theirs, strict=True)
    return [float(stats.ks_2samp(a, b, method="asymp").pvalue) for a, b in pairs]


def chi_square(ruler: Ruler, prompt: list[int], draws: Sequence[list[int]], new: int) -> float:
    """p-value that draws of `new` of two tokens each follow the exact law; rare ones are joined."""
    every = [list(tokens) for tokens in product((0, 1), repeat=new)]
    law = np.exp(ruler.of(prompt, every))
    counts = np.array([sum(draw == tokens for draw in draws) for tokens in every])
    expected = law / law.sum() * len(draws)
    rare = expected < 5
    observed, wanted = counts[~rare], expected[~rare]
    if rare.any():
        observed = np.append(observed, counts[rare].sum())
        wanted = np.append(wanted, expected[rare].sum())
    return float(stats.chisquare(observed, wanted).pvalue)


def matmul_seconds(folder: Path, repeats: int = 5) -> float:
    """What the machine's own products of the model's weights take for a token, at best."""
    from torch.utils.mkldnn import to_mkldnn  # warns, which tests of the rest do not want

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    shapes = [tuple(m.weight.shape) for m in model.modules() if isinstance(m, torch.nn.Linear)]

    @cache
    def took(shape: tuple[int, int]) -> float:
        layer = torch.nn.Linear(shape[1], shape[0], bias=False).eval()
        rows, times = (
            torch.randn(ROWS, shape[1]),
            max(1, 2**30 // (2 * ROWS * layer.weight.numel())),
        )
        ways = {layer: rows, to_mkldnn(layer): rows.to_mkldnn()}  # MKL's kernels, oneDNN's
        best = float("inf")
        for (way, given), _ in product(ways.items(), range(repeats)):
            started = time.perf_counter()
            for _ in range(times):
                way(given)
            best = min(best, (time.perf_counter() - started) / times)
        return best

    with torch.inference_mode():
        return sum(map(took, shapes)) / ROWS


class Race:
    """The engines, each in its process, a contest after the other."""

    def __init__(self, engines: Sequence[Engine], threads: int, rounds: int, scratch: Path) -> None:
        self.engines, self.threads, self.rounds = engines, threads, rounds
        self.scratch = scratch
        self.failed: dict[tuple[str, str], str] = {}

    def run(self, contest: Contest) -> dict[str, Times]:
        """Rounds of all engines in turn; one that fails is left out, and why is kept."""
        work = asdict(contest.work)
        with ExitStack() as stack:
            live = {}
            for engine in self.engines:
                model = form(contest, engine, self.scratch)
                live[engine.name] = stack.enter_context(Process(engine, self.threads, self.scratch))
                live[engine.name].tell(model=str(model), work=work)
            for name, process in live.items():
                try:
                    process.answer()
                    process.ask(work=work | {"n": min(32, contest.work.n)})
                except RuntimeError as error:
                    self.failed[contest.label, name] = str(error)
            found = {name: Times() for name in live}
            for seed, name in product(range(self.rounds), live):
                if (contest.label, name) not in self.failed:
                    self._draw(contest, seed, live[name], found[name])
        return {n: x for n, x in found.items() if (contest.label, n) not in self.failed}

    def _draw(self, contest: Contest, seed: int, process: Process, times: Times) -> None:
        time.sleep(PAUSE)
        try:
            answer = process.ask(work=asdict(contest.work) | {"seed": seed})
        except RuntimeError as error:
            self.failed[contest.label, process.name] = str(error)
            return
        drawn: Drawn = answer["drawn"]
        times.seconds.append(answer["seconds"])
        times.cpu.append(answer["cpu"])
        times.tokens.append(answer["forwarded"] or _needed(contest.work, drawn))
        times.drawn = times.drawn or drawn


def form(contest: Contest, engine: Engine, scratch: Path) -> Path:
    """The model as the engine reads it, converted once."""
    if engine.form == "folder":
        return contest.folder
    made = scratch / "forms" / contest.name.replace(" ", "-").replace(",", "")
    made.mkdir(parents=True, exist_ok=True)
    if engine.form in ("f32", "q8"):
        return write_gguf(contest.folder, made / f"{engine.form}.gguf", engine.form)
    out = made / engine.form
    if not out.exists():
        script = [engine.python, "-c", CONVERT[engine.form], str(contest.folder), str(out)]
        with (scratch / "convert.log").open("a") as log:
            subprocess.run(script, stdout=log, stderr=log, check=False)
    return out


def _needed(work: Work, drawn: Drawn) -> int:
    """Tokens to forward where draws share their prompt alone; the last one of each needs none."""
    return sum(map(len, work.prompts)) + sum(len(x) - 1 for each in drawn for x in each)


def contests(options: argparse.Namespace, scratch: Path) -> Iterator[Contest]:
    """Those chosen of the demo's four models, a random one of 27 M parameters, SmolLM2's three.

    One for each n; the random model has one of its own.
    """
    task = load_benchmark(BENCHMARK)
    plain = Prompting(template=task.template)
    for label, path in demo_models(options.models).items():
        if chosen(f"demo, {label}", options.only):
            for work in _asked(path, spread(task.prompts, options), plain, 48, options.n):
                yield Contest(f"demo, {label}", path, work)
    if chosen("random, 27 M", options.only):
        prompts = [list(range(start, start + 20)) for start in (100, 200, 300)]
        yield Contest("random, 27 M", _random(scratch), Work(prompts, 128, 16, []), 64)
    for name in ("target", "npo", "control") if options.smollm2 else ():
        if chosen(f"SmolLM2, {name}", options.only):
            path, chat = options.smollm2 / name, Prompting(system=SYSTEM)
            author = load_benchmark("tofu:forget01", data=options.data)
            questions = spread(author.prompts, options)
            for work in _asked(path, questions, chat, options.tokens, options.n):
                yield Contest(f"SmolLM2, {name}", path, work, checked=256)


def spread(prompts: Sequence[Prompt], options: argparse.Namespace) -> Sequence[Prompt]:
    """Of a benchmark's questions at most as many as are asked, in equal steps."""
    return prompts[:: -(-len(prompts) // options.questions)]


def chosen(name: str, patterns: Sequence[str]) -> bool:
    """Whether a name is as one of these says, `*` for anything."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _asked(
    model: Path, prompts: Sequence[Prompt], prompting: Prompting, new: int, sizes: Sequence[int]
) -> list[Work]:
    loaded = load_model(str(model))
    ids = [prompting.encode(loaded.tokenizer, prompt.question) for prompt in prompts]
    return [Work(ids, n, new, sorted(loaded.eos_token_ids)) for n in sizes]


def two_tokens(scratch: Path) -> Contest:
    """A model whose 32 completions of five tokens have exact probabilities, all unlike."""
    config = {"vocab_size": 2, "hidden_size": 64, "intermediate_size": 128}
    folder = _saved(scratch / "two-tokens", config | {"initializer_range": 0.3}, layers=2, heads=2)
    return Contest("two tokens", folder, Work([[0, 1, 1]], 8192, 5, []))


def _random(scratch: Path) -> Path:
    config = {"vocab_size": 16384, "hidden_size": 512, "intermediate_size": 1376}
    return _saved(scratch / "random", config, layers=6, heads=8)


def _saved(folder: Path, config: dict[str, Any], layers: int, heads: int) -> Path:
    if not folder.exists():
        torch.manual_seed(0)
        made = LlamaConfig(
            num_hidden_layers=layers,
            num_attention_heads=heads,
            max_position_embeddings=512,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=None,
            **config,
        )
        LlamaForCausalLM(made).save_pretrained(folder)
    return folder


def row(contest: Contest, found: dict[str, Times], token: float) -> dict[str, Any]:
    """What a table shows of a contest; ratios are of each round."""
    forest = np.array(found[FOREST].seconds)
    ruler = Ruler(contest.folder)
    told: dict[str, Any] = {"model": contest.name, "n": contest.work.n, "new": contest.work.new}
    told["token_s"] = token
    told["saving"] = _needed(contest.work, found[FOREST].drawn) / found[FOREST].tokens[0]
    told["engines"] = {}
    plain = read(contest, ruler, found[GENERATE].drawn)
    for name, times in found.items():
        seconds = np.array(times.seconds)
        told["engines"][name] = {
            "seconds": float(np.median(seconds)),
            "cores": float(np.median(np.array(times.cpu) / seconds)),
            "ratio": float(np.median(seconds / forest)),
            "share": float(np.median(np.array(times.tokens) * token / seconds)),
        }
        if name != GENERATE:
            p_values = same_law(plain, read(contest, ruler, times.drawn))
            told["engines"][name] |= {"p": min(p_values), "tests": len(p_values)}
    others = [found[name].seconds for name in found if name not in (FOREST, QUANTISED)]
    best = np.min(others, axis=0) / forest
    told["best"], told["spread"] = float(np.median(best)), [float(best.min()), float(best.max())]
    return told


def show(rows: Sequence[dict[str, Any]], exact: dict[str, float], race: Race) -> None:
    """Both tables, and what was left out."""
    names = [engine.name for engine in race.engines]
    print("\nSeconds, or times the forest's; share of the matrix products' time.\n")
    print(f"| model | n, tokens | saving | {' | '.join(names)} | best other to forest |")
    print("|---" * (len(names) + 4) + "|")
    for told in rows:
        cells = [_cell(name, told["engines"].get(name)) for name in names]
        low, high = told["spread"]
        print(
            f"| {told['model']} | {told['n']:,}, {told['new']} | {told['saving']:.1f}× "
            f"| {' | '.join(cells)} | **{told['best']:.2g}×** ({low:.2g} to {high:.2g}) |"
        )
    print("\nSmallest p of one law with `generate`; of the exact law on two tokens.\n")
    print(f"| model | {' | '.join(names)} |")
    print("|---" * (len(names) + 1) + "|")
    for told in rows:
        each = [told["engines"].get(name, {}) for name in names]
        cells = [f"{x['p']:.3f} of {x['tests']}" if "p" in x else "–" for x in each]
        print(f"| {told['model']}, n = {told['n']:,} | {' | '.join(cells)} |")
    cells = [f"{exact[name]:.3f}" if name in exact else "–" for name in names]
    print(f"| two tokens, chi-square | {' | '.join(cells)} |")
    print("\n† Q8_0 weights: another law, which no other column counts.")
    for name, option, _ in OTHERS:
        if name not in names:
            print(f"Without {name}: --{option} was not given.")
    for (contest, engine), why in race.failed.items():
        print(f"{engine} left out of {contest}: {why}")


def _cell(name: str, told: dict[str, Any] | None) -> str:
    if told is None:
        return "–"
    took = f"{told['seconds']:.2f} s" if name == FOREST else f"{told['ratio']:.1f}×"
    return f"{took}, {told['share']:.0%}"


def engines(options: argparse.Namespace) -> list[Engine]:
    """Those whose interpreter is given."""
    own = [(FOREST, "forest"), (GENERATE, "transformers")]
    found = [Engine(name, worker, sys.executable) for name, worker in own]
    for name, worker, kind in OTHERS:
        if python := getattr(options, worker):
            found.append(Engine(name, worker, python, kind))
    return found


def main() -> None:
    args = options(
        __doc__,
        models=MODELS,
        smollm2=(Path, "a folder with target, npo and control"),
        data=(str, "folder of TOFU's files"),
        tokens=(8, "of a completion of SmolLM2"),
        threads=torch.get_num_threads(),
        rounds=3,
        questions=(3, "of each model but the random one, at most"),
        n=([1024], "draws of each question"),
        **{name: (str, f"interpreter that has {name}") for _, name, _ in OTHERS},
        only=(["*"], "models by name, as 'demo, full' or '*control'"),
        scratch=(Path, "keeps what was converted"),
    )
    torch.set_num_threads(args.threads)
    disable_progress_bar()
    with tempfile.TemporaryDirectory() as temporary:
        scratch = args.scratch or Path(temporary)
        scratch.mkdir(parents=True, exist_ok=True)
        race = Race(engines(args), args.threads, args.rounds, scratch)
        how = f"{args.threads} threads, {args.rounds} rounds, {args.questions} questions at most"
        print(how, flush=True)
        small = two_tokens(scratch)
        one = Race(race.engines, args.threads, 1, scratch)
        drawn = one.run(small) if chosen(small.name, args.only) else {}
        ruler = Ruler(small.folder)
        exact = {
            name: chi_square(ruler, small.work.prompts[0], times.drawn[0], small.work.new)
            for name, times in drawn.items()
        }
        rows: list[dict[str, Any]] = []
        for contest in contests(args, scratch):
            token = matmul_seconds(contest.folder)
            rows.append(row(contest, race.run(contest), token))
            print(f"{contest.label}: done", file=sys.stderr, flush=True)
            keep(args.json, {"rows": rows, "exact": exact})
        race.failed |= one.failed
        show(rows, exact, race)


if __name__ == "__main__":
    main()
