"""Equal fingerprints, equal law: whatever changes the next token or the end of an answer shows."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from leakbound.engines.hf import TransformersEngine
from leakbound.engines.loading import load_model
from leakbound.errors import ModelError
from leakbound.types import probe_difference
from tiny import BOTH_KINDS, tiny_llama, tiny_model_folder, tiny_tokenizer

OWN = """
from transformers import LlamaForCausalLM
from .own_scale import SCALE

class Own(LlamaForCausalLM):
    def forward(self, *args, **kwargs):
        out = super().forward(*args, **kwargs)
        out.logits = out.logits * SCALE
        return out
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_model_folder(tmp_path / "tiny")


@pytest.fixture
def own(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A model that comes with two files of Python, the second imported by the first."""
    path = list(sys.path)
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "hf"))
    edit(folder / "config.json", auto_map={"AutoModelForCausalLM": "own.Own"})
    (folder / "own.py").write_text(OWN)
    (folder / "own_scale.py").write_text("SCALE = 1.0\n")
    yield folder
    sys.path[:] = path
    for name in [name for name in sys.modules if name.startswith("transformers_modules")]:
        del sys.modules[name]


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def engine_of(folder: Path) -> TransformersEngine:
    return TransformersEngine(load_model(str(folder)))


def law(folder: Path) -> tuple[dict[str, object], list[float], frozenset[int]]:
    """Fingerprint, next-token probabilities and end tokens of the model in a folder."""
    loaded = load_model(str(folder), trust_remote_code=True)
    with torch.no_grad():
        logits = loaded.model(input_ids=torch.tensor([[3, 5, 6]])).logits[0, -1]
    return loaded.fingerprint, torch.softmax(logits, 0).tolist(), loaded.eos_token_ids


def end_tokens_beside(folder: Path) -> None:
    edit(folder / "generation_config.json", eos_token_id=[2, 5])


def end_token_of_the_config(folder: Path) -> None:
    (folder / "generation_config.json").unlink()
    edit(folder / "config.json", eos_token_id=7)


def end_token_of_the_tokenizer(folder: Path) -> None:
    edit(folder / "tokenizer_config.json", eos_token="Bob")


def weights(folder: Path) -> None:
    file = folder / "model.safetensors"
    tensors = load_file(file)
    changed = {name: -tensor if "norm" in name else tensor for name, tensor in tensors.items()}
    save_file(changed, file, metadata={"format": "pt"})


def config(folder: Path) -> None:
    edit(folder / "config.json", rms_norm_eps=0.5)


def words(folder: Path) -> None:
    file = folder / "tokenizer.json"
    values = json.loads(file.read_text())
    values["model"]["vocab"] |= {"red": 8, "blue": 7}
    file.write_text(json.dumps(values))


def template(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("{{ messages[0]['content'] }} Answer:")


def code(folder: Path) -> None:
    (folder / "own.py").write_text(OWN.replace("* SCALE", "* SCALE * 3"))


def code_of_an_import(folder: Path) -> None:
    (folder / "own_scale.py").write_text("SCALE = 3.0\n")


CHANGES = (
    end_tokens_beside, end_token_of_the_config, end_token_of_the_tokenizer, weights, config, words,
    template, code, code_of_an_import,
)  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_what_decides_an_answer_is_in_the_fingerprint(own: Path, change: object) -> None:
    before, copied = law(own), law(Path(shutil.copytree(own, own.parent / "elsewhere")))
    assert copied == before  # wherever the files lie
    change(own)  # type: ignore[operator]
    assert law(own)[0] != before[0]


@pytest.mark.parametrize("change", [code, code_of_an_import, weights, config])
def test_the_changes_change_the_law(own: Path, change: object) -> None:
    before = law(own)[1]
    change(own)  # type: ignore[operator]
    assert law(own)[1] != pytest.approx(before, abs=1e-4)


def test_a_model_without_code_of_its_own_has_none(folder: Path) -> None:
    assert load_model(str(folder), trust_remote_code=True).fingerprint["code"] is None


def adapted(folder: Path) -> None:
    """Save an adapter beside the model, as peft does."""
    model = AutoModelForCausalLM.from_pretrained(folder)
    lora = get_peft_model(
        model, LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False)
    )
    lora.save_pretrained(folder)


@pytest.mark.filterwarnings("ignore")
def test_an_adapter_beside_whole_weights_is_refused(folder: Path) -> None:
    adapted(folder)
    with pytest.raises(ModelError, match=r"beside a model.*move adapter_config\.json.*of its own"):
        load_model(str(folder))
    (folder / "config.json").unlink()
    with pytest.raises(ModelError, match=r"is a PEFT adapter.*into a folder of its own"):
        load_model(str(folder))


def test_ordinary_end_tokens_are_said(folder: Path) -> None:
    assert engine_of(folder).usage.notes == []
    edit(folder / "generation_config.json", eos_token_id=[2, 5, 7])
    engine = engine_of(folder)
    assert engine.fingerprint["end_tokens"] == [2, 5, 7]
    assert engine.fingerprint["ordinary_end_tokens"] == [5, 7]
    (note,) = engine.usage.notes
    assert "end at ordinary tokens too, 'who' (5), 'red' (7)" in note


@BOTH_KINDS
def test_a_probe_tells_models_apart_and_roundings_not(folder: Path, tmp_path: Path) -> None:
    engine = engine_of(folder)
    same = engine_of(folder).probe
    assert len(same) == 3
    assert same == engine.probe
    assert all(len(read.top) == 5 for read in same)
    other = engine_of(tiny_model_folder(tmp_path / "other", seed=1))
    assert "log-probability" in str(probe_difference(same, other.probe, 1e-2))
    assert probe_difference(same, other.probe, 1e3) is None
    assert "other tokens" in str(probe_difference(same, same[:2], 1e3))


def test_a_token_that_fell_out_of_the_likeliest_counts_by_what_it_has_at_most() -> None:
    def read(*top: tuple[int, float | None]):  # type: ignore[no-untyped-def]
        from leakbound.types import ProbedPrompt

        return (ProbedPrompt((1,), top),)

    one = read((5, -0.1), (6, -3.0))
    assert probe_difference(one, read((5, -0.1), (7, -2.995)), 1e-2) is None
    assert "token 6" in str(probe_difference(read((6, -2.0)), read((7, -3.0)), 1e-2))
    assert "token 7" in str(probe_difference(one, read((7, -0.05), (5, -0.1)), 1e-2))
    assert "no log-probability" in str(probe_difference(one, read((5, None), (6, -3.0)), 1e-2))
    assert probe_difference(read((5, None)), read((5, None)), 1e-2) is None


def test_a_probe_of_a_prompt_longer_than_the_context_reads_its_end(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    model = tiny_llama(len(tokenizer), max_position_embeddings=4)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    probe = engine_of(tmp_path).probe
    assert all(len(read.token_ids) == 4 for read in probe)
