"""A step of NPO + entropy against a plain `Trainer` that does the same work.

    python bench/training.py [--model FOLDER] [--benchmark tofu:forget01 --data TOFU] [--quick]

The plain side (`peers/plain_trainer.py`) is what one writes today: a frozen copy of the model
reads the forget rows in every step, and logits are made at every place. Rows, order, weights,
AdamW and precision are the same. Every run is a process of its own that begins with fresh
weights, the two sides in turn. Without `--model` a random Llama of SmolLM2-135M's shape is
trained, with `--quick` a small one.

Times are of a step without set-up and leave out the first; *with the pass* adds leakbound's one
pass of the frozen model over the forget rows, spread over ten epochs. Memory is the peak over the
steps from the second on, less what the process held before the model was loaded, less 16 bytes a
parameter (weights, gradients and the two moments of AdamW, all in float32). It is taken in runs
of their own, where freed blocks of 256 KiB or more go back to the system at once.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from leakbound.benchmarks import load_benchmark
from leakbound.engines.loading import quiet, save_model
from leakbound.engines.prompting import Prompting
from leakbound.types import Prompt
from leakbound.unlearning import Progress, TrainingSettings, unlearn
from leakbound.unlearning.examples import Encoder
from leakbound.unlearning.reference import References
from peers import plain_trainer
from runner import keep, options

BATCH = 8
RETAINED = 160  # the rows before the forget set, as in `tofu-mini`
EPOCHS = 10  # over which the pass of the frozen model is spread
SMOLLM2 = {
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
}
SMALL = {
    "hidden_size": 128,
    "intermediate_size": 352,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
}
# glibc's allocator: large blocks are mapped one by one, and what is free goes back.
LEAN = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 18),
    "MALLOC_TRIM_THRESHOLD_": "0",
    "MALLOC_ARENA_MAX": "1",
}
CHAT = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True)
class Case:
    """The work of one run."""

    model: str
    forget: Sequence[Prompt]
    retain: Sequence[Prompt]
    prompting: Prompting
    settings: TrainingSettings
    threads: int


@dataclass
class Record:
    """What a run saw: a loss and two clocks a step, the peak of its memory, the frozen pass."""

    losses: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    peak: int = 0
    frozen: float = 0.0

    def __call__(self, step: int, steps: int, loss: float) -> None:
        """A step has ended."""
        self.losses.append(loss)
        self.wall.append(time.perf_counter())
        self.cpu.append(time.process_time())
        if step == 1:
            forget_peak()
        self.peak = resident("VmHWM")

    def seconds(self, clock: str) -> float:
        """The median step on a clock, the first left out."""
        ends = getattr(self, clock)
        return statistics.median(b - a for a, b in pairwise(ends))


def resident(field: str) -> int:
    """Bytes of memory this process holds (VmRSS) or held at most (VmHWM); Linux only."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"this system does not tell {field} of a process")


def forget_peak() -> None:
    """Let VmHWM begin anew."""
    Path("/proc/self/clear_refs").write_text("5")


def leakbound(case: Case, out: Path, progress: Progress) -> float:
    """The run by the package's own verb; CPU seconds of its pass of the frozen model."""
    seconds = 0.0
    compute = References.compute

    def clocked(*arguments: Any) -> None:
        nonlocal seconds
        started = time.process_time()
        compute(*arguments)
        seconds = time.process_time() - started

    with mock.patch.object(References, "compute", clocked):
        unlearn(
            case.model,
            "npo+entropy",
            forget=case.forget,
            retain=case.retain,
            out=out,
            settings=replace(case.settings, prompting=case.prompting),
            progress=progress,
        )
    return seconds


def plain(case: Case, out: Path, progress: Progress) -> float:
    """The run by a plain `Trainer`, which makes no pass ahead."""
    with quiet():
        encoder = Encoder(AutoTokenizer.from_pretrained(case.model), case.prompting)
        rows = {"forget": encoder.rows(case.forget), "retain": encoder.rows(case.retain)}
        plain_trainer.train(case.model, rows, case.settings, out, progress)
    return 0.0


SIDES = {"leakbound": leakbound, "plain": plain}


def run(side: str, case: Case) -> Record:
    """One side in this process."""
    torch.set_num_threads(case.threads)
    record, before = Record(), resident("VmRSS")
    with tempfile.TemporaryDirectory() as scratch:
        record.frozen = SIDES[side](case, Path(scratch) / "out", record)
    record.peak -= before
    return record


def run_apart(side: str, case: Case, **environment: str) -> Record:
    """One side in a process of its own."""
    with (
        mock.patch.dict(os.environ, environment),
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
    ):
        return pool.submit(run, side, case).result()


@contextmanager
def random_model(shape: dict[str, int], prompts: Sequence[Prompt]) -> Iterator[str]:
    """A folder with a random Llama, SmolLM2's vocabulary in size, that is asked by chat."""
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.train_from_iterator(
        [text for p in prompts for text in (p.question, p.answer or "")],
        trainers.BpeTrainer(
            special_tokens=special,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token="<|im_end|>",
        additional_special_tokens=special[1:2],
        chat_template=CHAT,
    )
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=49_152,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=0,
        **shape,
    )
    with tempfile.TemporaryDirectory() as folder:
        save_model(LlamaForCausalLM(config), tokenizer, Path(folder) / "model")
        yield str(Path(folder) / "model")


def compare(case: Case, rounds: int) -> dict[str, Any]:
    """Both sides in turn; medians over rounds, ratios within a round."""
    pairs = [{side: run_apart(side, case) for side in SIDES} for _ in range(rounds)]
    lean = {side: run_apart(side, case, **LEAN) for side in SIDES}
    found: dict[str, Any] = {
        "difference": max(
            abs(a - b) / abs(b)
            for pair in [*pairs, lean]
            for a, b in zip(pair["leakbound"].losses, pair["plain"].losses, strict=True)
        )
    }
    for clock in ("cpu", "wall"):
        for side in SIDES:
            found[f"{clock}, {side}"] = _median(pair[side].seconds(clock) for pair in pairs)
        found[f"{clock}, ratio"] = _median(
            pair["plain"].seconds(clock) / pair["leakbound"].seconds(clock) for pair in pairs
        )
    steps = len(pairs[0]["leakbound"].losses)
    found["frozen"] = _median(pair["leakbound"].frozen for pair in pairs) / steps
    found["cpu, ratio with the pass"] = _median(
        pair["plain"].seconds("cpu")
        / (pair["leakbound"].seconds("cpu") + pair["leakbound"].frozen / steps / EPOCHS)
        for pair in pairs
    )
    weights = 4 * parameters(case.model)
    above = {side: lean[side].peak - 4 * weights for side in SIDES}
    return found | {
        **{f"memory, {side}": above[side] for side in SIDES},
        "memory, ratio": above["leakbound"] / above["plain"],
        "memory, ratio without the frozen copy": above["leakbound"] / (above["plain"] - weights),
    }


def parameters(model: str) -> int:
    """How many there are, tied ones counted once."""
    with torch.device("meta"):
        made = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(model))
    return int(made.num_parameters())


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)


def show(found: dict[str, Any]) -> None:
    """The table."""
    print("| side | CPU time a step | wall time a step | memory above |\n|---|---|---|---|")
    for side in SIDES:
        print(
            f"| {side} | {found[f'cpu, {side}']:.2f} s | {found[f'wall, {side}']:.2f} s "
            f"| {found[f'memory, {side}'] / 1e9:.2f} GB |"
        )
    print(
        f"\nfaster {found['cpu, ratio']:.2f}× in CPU time ({found['wall, ratio']:.2f}× in wall "
        f"time), {found['cpu, ratio with the pass']:.2f}× with the pass of the frozen model "
        f"({found['frozen']:.2f} s a batch, once)\n"
        f"memory {found['memory, ratio']:.2f} of the plain side's, "
        f"{found['memory, ratio without the frozen copy']:.2f} without its frozen copy\n"
        f"losses differ by at most {found['difference']:.1e} of their value"
    )


def main() -> None:
    args = options(
        __doc__,
        model=(str, "a model folder"),
        benchmark="fictitious",
        data=Path,
        rounds=3,
        steps=3,
        threads=1,
        quick=(False, "a small model"),
    )
    task = load_benchmark(args.benchmark, data=args.data)
    forget, retain = task.prompts[: BATCH * args.steps], task.split("retain")[-RETAINED:]
    settings = TrainingSettings(epochs=1, batch_size=BATCH, schedule="constant", warmup_ratio=0.0)
    made: AbstractContextManager[str] = nullcontext(args.model)
    if not args.model:
        made = random_model(SMALL if args.quick else SMOLLM2, [*forget, *retain])
    with made as model:
        prompting = Prompting(system=task.system)
        case = Case(model, forget, retain, prompting, settings, args.threads)
        found = compare(case, args.rounds)
    show(found)
    keep(args.json, found)


if __name__ == "__main__":
    main()
