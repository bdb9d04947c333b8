"""Models load completely or not at all, are saved whole, and are identified by a fingerprint.

Equal fingerprints mean equal distributions: changes of next tokens or of the end show.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, BertForMaskedLM, BertLMHeadModel

from hostile.models import MODELS, NORM, REASONS, tensors
from leakbound.engines.hf import TransformersEngine
from leakbound.engines.loading import Checkpoint, load_model, save_model
from leakbound.errors import InputError, ModelError
from leakbound.types import ProbedPrompt, probe_difference
from tiny import BOTH_KINDS, edit, tiny_bert_config, tiny_llama, tiny_model_folder, tiny_tokenizer

WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def original(embeddings: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model_folder(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    """Return a copy that a test may damage."""
    return Path(shutil.copytree(original, tmp_path / "tiny"))


@BOTH_KINDS
def test_loads_the_weights_as_they_are(original: Path) -> None:
    loaded = load_model(str(original), trust_remote_code=True)
    stored = load_file(original / WEIGHTS)
    got = dict(loaded.model.named_parameters())
    assert all(torch.equal(got[name], stored[name]) for name in stored)
    assert loaded.eos_token_ids == {2}
    assert loaded.context_length == 128
    assert loaded.fingerprint["code"] is None
    assert not loaded.model.training


@BOTH_KINDS
@pytest.mark.parametrize("name", REASONS)
def test_a_damaged_folder_is_refused_with_what_is_wrong(folder: Path, name: str) -> None:
    MODELS[name](folder)
    with pytest.raises(ModelError, match=REASONS[name]):
        load_model(str(folder))


REFUSED: dict[str, tuple[Callable[[str], object], str]] = {
    "a file": (lambda f: load_model(f"{f}/{WEIGHTS}"), "is a file"),
    "nowhere": (lambda f: load_model(f"{f}/elsewhere"), "no model folder"),
    "not on the hub": (lambda _: load_model("nobody/none-such"), "from the hub failed"),
    "a dtype": (lambda f: load_model(f, dtype="int8"), "must be one of"),
    "a device": (lambda f: load_model(f, device="tpu"), "must be one of"),
    "a GPU": (lambda f: load_model(f, device="cuda"), "no GPU"),
    "to save over": (lambda f: save_model(None, None, Path(f)), "exists. Remove it"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_loads_are_refused(name: str, original: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    use, message = REFUSED[name]
    with pytest.raises((InputError, ModelError), match=message):
        use(str(original))


def test_a_folder_of_checkpoints_names_the_last_of_them(tmp_path: Path) -> None:
    """As trainers leave them: the model is in a subfolder."""
    for step in (50, 100, 200, 900, 1000, 1100):
        (tmp_path / "out" / f"checkpoint-{step}").mkdir(parents=True)
        (tmp_path / "out" / f"checkpoint-{step}" / "config.json").write_text("{}")
    with pytest.raises(ModelError) as refused:
        load_model(str(tmp_path / "out"))
    named = [f"checkpoint-{step}" for step in (100, 200, 900, 1000, 1100)]
    assert re.findall(r"checkpoint-\d+", str(refused.value)) == named
    assert "subfolders: …, `" in str(refused.value)


def test_generation_config_gives_end_tokens_and_nothing_else(folder: Path) -> None:
    edit(folder / "generation_config.json", eos_token_id=[5, 6], top_p=0.5, do_sample=True)
    loaded = load_model(str(folder))
    assert loaded.eos_token_ids == {2, 5, 6}
    assert loaded.model.generation_config.top_p != 0.5
    assert loaded.fingerprint["generation_config_ignored"] == {"do_sample": True, "top_p": 0.5}


@pytest.mark.parametrize("wrong", [-1, [2, -1], 14], ids=str)
@pytest.mark.parametrize("file", ["generation_config.json", "config.json"])
@pytest.mark.parametrize("load", [load_model, Checkpoint.open])
def test_an_end_token_that_is_no_token_is_refused(
    folder: Path, file: str, wrong: object, load: Callable[[str], Any]
) -> None:
    if file == "config.json":
        (folder / "generation_config.json").unlink()
    edit(folder / file, eos_token_id=wrong)
    token = wrong[-1] if isinstance(wrong, list) else wrong
    with pytest.raises(ModelError, match=rf"`eos_token_id` {token} in .* are 0 to 13\. Set"):
        _ = load(str(folder)).eos_token_ids


@pytest.mark.parametrize(  # both in the quick suite: no other save of ours is checked there
    "embeddings", [True, False], ids=["tied", "untied"], indirect=True, scope="module"
)
def test_saved_model_comes_back(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    model = tiny_llama(len(tokenizer), seed=1)
    ids = torch.tensor([[3, 5]])
    with torch.no_grad():
        before = model(ids).logits
    save_model(model, tokenizer, tmp_path / "deep" / "m", files={"note.txt": "kept"})
    loaded = load_model(str(tmp_path / "deep" / "m"))
    with torch.no_grad():
        assert torch.equal(loaded.model(ids).logits, before)
        assert torch.equal(model(ids).logits, before)  # saving does not change it
    assert (tmp_path / "deep" / "m" / "note.txt").read_text() == "kept"
    assert {f.stat().st_mode & 0o777 for f in (tmp_path / "deep" / "m").iterdir()} == {0o600}


@BOTH_KINDS
def test_save_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = tiny_tokenizer()
    model = tiny_llama(len(tokenizer))

    def broken(path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tokenizer, "save_pretrained", broken)
        with pytest.raises(KeyboardInterrupt):
            save_model(model, tokenizer, tmp_path / "m")
    assert not (tmp_path / "m").exists()
    save_model(model, tokenizer, tmp_path / "m")  # left-over files do not matter
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def bert(folder: Path, kind: Any, **settings: Any) -> str:
    torch.manual_seed(0)
    tokenizer = tiny_tokenizer()
    config = tiny_bert_config(len(tokenizer), **settings)
    kind(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [(BertForMaskedLM, "float32"), (BertForMaskedLM, "bfloat16"), (BertLMHeadModel, "float32")],
)
def test_a_model_that_looks_ahead_is_refused(kind: Any, dtype: str, tmp_path: Path) -> None:
    """transformers silently gives it a generating head; the last one's name does not show it."""
    folder = bert(tmp_path / "bert", kind)
    named = rf"`{folder}` is not a causal language model \({kind.__name__}\).+left to right"
    with pytest.raises(ModelError, match=named):
        load_model(folder, dtype=dtype)


@BOTH_KINDS
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_causal_ones_are_not(dtype: str, tmp_path: Path) -> None:
    decoder = bert(tmp_path / "decoder", BertLMHeadModel, is_decoder=True)
    llama = str(tiny_model_folder(tmp_path / "llama"))
    for folder in (decoder, llama):
        assert load_model(folder, dtype=dtype).model.dtype == getattr(torch, dtype)


def test_a_gguf_file_cut_short_anywhere_is_refused(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    import numpy as np

    whole = tmp_path / "whole.gguf"
    writer = gguf.GGUFWriter(str(whole), "llama")
    writer.add_block_count(1)
    writer.add_embedding_length(16)
    writer.add_tensor("token_embd.weight", np.zeros((8, 16), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    content = whole.read_bytes()
    cut = tmp_path / "cut.gguf"
    for length in (0, 3, 4, 10, 24, 40, 90, len(content) // 2, len(content) - 100):
        cut.write_bytes(content[:length])
        with pytest.raises(ModelError, match=rf"`{cut}` cannot be loaded: .+ Check the model's"):
            load_model(str(cut))


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
def own(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A model with two Python files, the second imported by the first."""
    path = list(sys.path)
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "hf"))
    edit(folder / "config.json", auto_map={"AutoModelForCausalLM": "own.Own"})
    (folder / "own.py").write_text(OWN)
    (folder / "own_scale.py").write_text("SCALE = 1.0\n")
    yield folder
    sys.path[:] = path
    for name in [name for name in sys.modules if name.startswith("transformers_modules")]:
        del sys.modules[name]


def engine_of(folder: Path) -> TransformersEngine:
    return TransformersEngine(load_model(str(folder)))


def law(folder: Path) -> tuple[dict[str, object], list[float], frozenset[int]]:
    """Return the fingerprint, next-token probabilities and end tokens of the model in a folder."""
    loaded = load_model(str(folder), trust_remote_code=True)
    with torch.no_grad():
        logits = loaded.model(input_ids=torch.tensor([[3, 5, 6]])).logits[0, -1]
    return loaded.fingerprint, torch.softmax(logits, 0).tolist(), loaded.eos_token_ids


def end_token_of_the_config(folder: Path) -> None:
    (folder / "generation_config.json").unlink()
    edit(folder / "config.json", eos_token_id=7)


def words(folder: Path) -> None:
    values = json.loads((folder / "tokenizer.json").read_text())
    values["model"]["vocab"] |= {"red": 8, "blue": 7}
    (folder / "tokenizer.json").write_text(json.dumps(values))


CHANGES: dict[str, Callable[[Path], object]] = {
    "end tokens beside": lambda f: edit(f / "generation_config.json", eos_token_id=[2, 5]),
    "end token of the config": end_token_of_the_config,
    "end token of the tokenizer": lambda f: edit(f / "tokenizer_config.json", eos_token="Bob"),
    "weights": lambda f: tensors(**{NORM: -load_file(f / WEIGHTS)[NORM]})(f),
    "config": lambda f: edit(f / "config.json", rms_norm_eps=0.5),
    "words": words,
    "template": lambda f: (f / "chat_template.jinja").write_text("{{ messages[0].content }} So:"),
    "code": lambda f: (f / "own.py").write_text(OWN.replace("* SCALE", "* SCALE * 3")),
    "code of an import": lambda f: (f / "own_scale.py").write_text("SCALE = 3.0\n"),
}
LAW = ("code", "code of an import", "weights", "config")  # these decide the tested prompt


def test_what_decides_an_answer_is_in_the_fingerprint(own: Path) -> None:
    before = law(own)
    for name, change in {"place": lambda _: None, **CHANGES}.items():
        copy = Path(shutil.copytree(own, own.with_name(name.replace(" ", "-"))))
        change(copy)
        after = law(copy)
        assert after == before if name == "place" else after[0] != before[0], name
        assert name not in LAW or after[1] != pytest.approx(before[1], abs=1e-4), name


@pytest.mark.filterwarnings("ignore")
def test_an_adapter_next_to_whole_weights_is_refused(folder: Path) -> None:
    how = LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False)
    get_peft_model(AutoModelForCausalLM.from_pretrained(folder), how).save_pretrained(folder)
    with pytest.raises(ModelError, match=r"a PEFT.*move adapter_config\.json.*another folder"):
        load_model(str(folder))
    (folder / "config.json").unlink()
    with pytest.raises(ModelError, match=r"is a PEFT adapter.*to another folder"):
        load_model(str(folder))


def test_ordinary_end_tokens_are_noted(folder: Path) -> None:
    assert engine_of(folder).usage.notes == []
    edit(folder / "generation_config.json", eos_token_id=[2, 5, 7])
    engine = engine_of(folder)
    assert engine.fingerprint["end_tokens"] == [2, 5, 7]
    assert engine.fingerprint["ordinary_end_tokens"] == [5, 7]
    (note,) = engine.usage.notes
    assert "lists ordinary tokens as end tokens: 'who' (5), 'red' (7)" in note


@BOTH_KINDS
def test_a_probe_separates_models_and_no_roundings(folder: Path, tmp_path: Path) -> None:
    engine = engine_of(folder)
    same = engine_of(folder).probe
    assert len(same) == 3
    assert same == engine.probe
    assert all(len(read.top) == 5 for read in same)
    other = engine_of(tiny_model_folder(tmp_path / "other", seed=1))
    assert "log-probability" in str(probe_difference(same, other.probe, 1e-2))
    assert probe_difference(same, other.probe, 1e3) is None
    assert "different tokens" in str(probe_difference(same, same[:2], 1e3))


def test_a_token_outside_the_likeliest_counts_by_its_upper_limit() -> None:
    def read(*top: tuple[int, float | None]) -> tuple[ProbedPrompt, ...]:
        return (ProbedPrompt((1,), top),)

    one = read((5, -0.1), (6, -3.0))
    assert probe_difference(one, read((5, -0.1), (7, -2.995)), 1e-2) is None
    assert "token 6" in str(probe_difference(read((6, -2.0)), read((7, -3.0)), 1e-2))
    assert "token 7" in str(probe_difference(one, read((7, -0.05), (5, -0.1)), 1e-2))
    assert "no probability of" in str(probe_difference(one, read((5, None), (6, -3.0)), 1e-2))
    assert probe_difference(read((5, None)), read((5, None)), 1e-2) is None


def test_a_probe_reads_the_end_of_a_long_prompt(tmp_path: Path) -> None:
    probe = engine_of(tiny_model_folder(tmp_path / "m", max_position_embeddings=4)).probe
    assert all(len(read.token_ids) == 4 for read in probe)
