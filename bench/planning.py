"""What a large study would cost: from what was measured here, and what is extrapolated from it.

    python bench/planning.py [--engines JSON] [--volume JSON]

The files are what `bench/engines.py --json` and `bench/volume.py --json` wrote; a table whose file
is not given is left out. A token costs two operations a parameter; an engine reaches the share of
the machine's own matrix products that it reached here with SmolLM2. Rows marked *extrapolated*
carry both over to other sizes and machines, which nobody has measured: bandwidth, attention over
long contexts, links between GPUs and loading are left out, so they are a first guess, to be
replaced by `leakbound evaluate --dry-run` on the machine itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner import options

PROMPTS, DRAWS, NIGHT = 100_000, 10_000, 10.0  # of the study, and hours
TOKENS = 40  # of an answer, as SmolLM2 gives to TOFU's questions
SAVING = {"peaked": 11.2, "diffuse": 1.5}  # n = 1,024, whole answers: docs/results.md
MODELS = {"peaked": "SmolLM2, target", "diffuse": "SmolLM2, control"}  # whose shares are taken
ENGINES = ("forest", "vLLM", "llama.cpp")
GPU, PEAK, GPU_GB = "H100", 989e12, 80  # NVIDIA's figures: dense bfloat16, memory
BANDWIDTH = 3.35e12  # the same: bytes a second
CALL = 20e-6  # seconds in which an H200's host gives it something to do, by bench/gpu.py
CALLS, ONCE = 41, 59  # of a layer, in half precision: tests/engines/test_cascade.py
LAW_BYTES = 46  # of a logit on its way to a draw: passes over it in float64, and in half before
HOST = 2e-6  # seconds of the forest for a row, measured on one core
ROWS = 1024  # that advance together
GB = 1e9


@dataclass(frozen=True, slots=True)
class Model:
    """A model's size: parameters, layers, heads of keys and values, their width."""

    name: str
    parameters: float
    layers: int
    heads: int
    width: int
    vocabulary: int

    @property
    def keys_values(self) -> int:
        """Bytes that a token keeps for attention, in bfloat16."""
        return 2 * 2 * self.layers * self.heads * self.width


SIZES = (  # SmolLM2-135M; Llama 3.2 1B, 3.1 8B and 70B
    Model("135M", 134.5e6, 30, 3, 64, 49_152),
    Model("1B", 1.24e9, 16, 8, 64, 128_256),
    Model("8B", 8.03e9, 32, 8, 128, 128_256),
    Model("70B", 70.6e9, 80, 8, 128, 128_256),
)


@dataclass(frozen=True, slots=True)
class Step:
    """The least that a step of the forest takes on the GPU, in seconds, by its figures alone.

    Each of `rows` has `depth` tokens after one of `prompts` prompts of so many tokens.
    """

    model: Model
    rows: int
    prompt: int
    depth: int
    prompts: int = 1

    @property
    def arithmetic(self) -> float:
        return 2 * self.model.parameters * self.rows / PEAK

    @property
    def weights(self) -> float:
        """Reading them."""
        return 2 * self.model.parameters / BANDWIDTH

    @property
    def gathered(self) -> float:
        """Keys and values of whole paths: read, laid out, and read by attention."""
        return 3 * self.rows * (self.prompt + self.depth) * self.model.keys_values / BANDWIDTH

    @property
    def once(self) -> float:
        """The same of each prompt once, and of what rows generated, laid out twice."""
        tokens = 3 * self.prompts * self.prompt + 5 * self.rows * self.depth
        return tokens * self.model.keys_values / BANDWIDTH

    @property
    def calls(self) -> float:
        """Giving them, where keys are gathered."""
        return self.model.layers * CALLS * CALL

    @property
    def calls_once(self) -> float:
        return self.model.layers * ONCE * CALL

    @property
    def forward(self) -> float:
        """Of one whose keys are gathered: what takes longest, since they go on side by side."""
        return max(self.arithmetic, self.weights + self.gathered, self.calls)

    @property
    def law(self) -> float:
        return LAW_BYTES * self.model.vocabulary * self.rows / BANDWIDTH

    @property
    def seconds(self) -> float:
        """All of it, one after the other: the host waits for what was drawn."""
        return self.forward + self.law + HOST * self.rows


def roofline() -> None:
    """A step of each size, and of two numbers of prompts."""
    print(f"\nA step of {ROWS:,} rows, 20 tokens behind prompts of 100, on an {GPU}: estimates.\n")
    print(
        "| model | arithmetic | weights | keys, gathered | calls | law | forest | rows a second "
        "| read once: calls | keys of 1 prompt | of 64 |"
    )
    print("|---" * 11 + "|")
    for size in SIZES[:3]:
        step, many = Step(size, ROWS, 100, 20), Step(size, ROWS, 100, 20, 64)
        told = (step.arithmetic, step.weights, step.gathered, step.calls, step.law, HOST * ROWS)
        cells = [*map(_ms, told), f"{_short(ROWS / step.seconds)}"]
        cells += map(_ms, (step.calls_once, step.once, many.once))
        print(f"| {size.name} | {' | '.join(cells)} |")


def _ms(seconds: float) -> str:
    return f"{_short(1000 * seconds)} ms"


def costs(rows: Sequence[Mapping[str, Any]]) -> None:
    """Cost of 10⁶ completions by size and engine, and the GPUs of a night."""
    known = {row["model"]: row for row in rows}
    print(
        f"Of 10⁶ completions of {TOKENS} tokens: hours of one of the measured cores, hours of one "
        f"{GPU}. Of\n{PROMPTS:,} questions × {DRAWS:,} draws in {NIGHT:g} hours: {GPU}s.\n"
    )
    print(f"| model | answers | {' | '.join(ENGINES)} | |")
    print("|---" * (len(ENGINES) + 3) + "|")
    for size in SIZES:
        for kind, model in MODELS.items():
            cells = [_cost(size, kind, known[model], name) for name in ENGINES]
            how = "GPUs extrapolated" if size is SIZES[0] else "all extrapolated"
            print(f"| {size.name} | {kind} | {' | '.join(cells)} | {how} |")
    for kind, model in MODELS.items():
        shares = [f"{name} {known[model]['engines'][name]['share']:.0%}" for name in ENGINES]
        print(f"\nShares of the peak, {kind} ({model}): {', '.join(shares)}.")


def _cost(size: Model, kind: str, row: Mapping[str, Any], name: str) -> str:
    share = row["engines"][name]["share"]
    forwarded = 1e6 * TOKENS / (SAVING[kind] if name == "forest" else 1)
    core = forwarded * row["token_s"] * size.parameters / SIZES[0].parameters / share / 3600
    gpu = forwarded * 2 * size.parameters / (PEAK * share) / 3600
    machines = gpu * PROMPTS * DRAWS / 1e6 / NIGHT
    return f"{_short(core)} h, {_short(gpu)} h, {_short(machines)}"


def _short(number: float) -> str:
    """Two digits of a number, which has no more to say."""
    return f"{float(f'{number:.2g}'):,.0f}" if number >= 10 else f"{number:.2g}"


def memory() -> None:
    """What a worker holds."""
    print(f"\nMemory of a worker, bfloat16: {ROWS:,} rows of 100 tokens beside the weights.\n")
    print("| model | weights | a row's token | rows | together | |")
    print("|---" * 6 + "|")
    for size in SIZES:
        weights, rows = 2 * size.parameters / GB, ROWS * 100 * size.keys_values / GB
        needed = -(-(weights + rows) // (0.9 * GPU_GB))
        print(
            f"| {size.name} | {weights:.1f} GB | {size.keys_values / 1000:.0f} kB | {rows:.1f} GB "
            f"| {weights + rows:.1f} GB | {needed:.0f} × {GPU} |"
        )


def growth(found: Sequence[Mapping[str, Any]]) -> None:
    """What the command itself needs for the study, by the slopes between measured runs."""
    n, questions = DRAWS, PROMPTS
    print(
        f"\nThe command, {questions:,} questions × {n:,} draws: extrapolated from bench/volume.py\n"
    )
    print("| answers | bytes a draw: disk, Arrow | disk | network | files | scores: rows, GB |")
    print("|---" * 6 + "|")
    for kind in SAVING:
        own = [one for one in found if one["kind"] == kind]
        if not own:
            continue
        large = max(own, key=lambda one: (one["n"], one["questions"]))
        draws = large["questions"] * large["n"]
        rows = large["rows"] / draws * questions * n
        parts = questions * -(-n // 8192)
        print(
            f"| {kind} | {large['disk']:.1f}, {large['arrow']:.1f} "
            f"| {large['disk'] * questions * n / GB:,.0f} GB "
            f"| {large['arrow'] * questions * n / GB:,.0f} GB | {parts:,} "
            f"| {rows:.1e}, {rows * ROW_BYTES / GB:.1f} |"
        )
    print(f"\n| answers | step | seconds a question | MB a question | {questions:,} questions |")
    print("|---" * 5 + "|")
    for kind in SAVING:
        for step in ("sample", "score", "bound"):
            _slope([one for one in found if one["kind"] == kind], kind, step)


ROW_BYTES = 28  # of a distinct completion among scores: two numbers, the id of its question


def _slope(own: Sequence[Mapping[str, Any]], kind: str, step: str) -> None:
    """From the smallest to the largest of the runs with the most draws a question in both."""
    by_n: dict[int, list[Mapping[str, Any]]] = {}
    for one in own:
        by_n.setdefault(one["n"], []).append(one)
    for n, runs in sorted(by_n.items()):
        if len(runs) < 2:
            continue
        few, many = min(runs, key=_questions), max(runs, key=_questions)
        more = many["questions"] - few["questions"]
        seconds = (many["seconds"][step] - few["seconds"][step]) / more
        peak = (many["peak_gb"][step] - few["peak_gb"][step]) / more
        print(
            f"| {kind}, n = {n:,} | {step} | {seconds:.3f} | {1000 * peak:.3f} "
            f"| {seconds * PROMPTS / 3600:.1f} h, {few['peak_gb'][step] + peak * PROMPTS:.1f} GB |"
        )


def _questions(one: Mapping[str, Any]) -> int:
    return int(one["questions"])


def main() -> None:
    args = options(
        __doc__,
        engines=(Path, "what bench/engines.py --json wrote"),
        volume=(Path, "what bench/volume.py --json wrote"),
    )
    if args.engines:
        costs(json.loads(args.engines.read_text())["rows"])
    memory()
    roofline()
    if args.volume:
        growth(json.loads(args.volume.read_text()))


if __name__ == "__main__":
    main()
