"""The vLLM engine over a fake of vLLM's interface; test_vllm_itself.py has the real one."""

from __future__ import annotations

import json
import shutil
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import fake_vllm
from leakbound import Explore, evaluate
from leakbound.engines import Prompting, open_engine
from leakbound.engines.hf import TransformersEngine
from leakbound.engines.vllm import VllmEngine
from leakbound.errors import InputError, MixError, ModelError
from leakbound.store import Run
from leakbound.text.counting import counted_as, is_missing
from leakbound.types import Decoding, Draws, Explores, Failure, Fingerprint, Query, Retraces, Sample
from offline_tokenizers import CHATML
from shared import keep
from tiny import WORDS, tiny_llama, tiny_model_folder, tiny_tokenizer

PROMPTING = Prompting(template="Question: {question} Answer: ")
QUERIES = [Query(id=f"q{i}", prompt_id=f"q{i}", text=text) for i, text in enumerate(["red", "sea"])]
DECODING = Decoding(max_new_tokens=5)


@pytest.fixture(autouse=True)
def _faked(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_vllm.installed(monkeypatch)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, embeddings: None) -> Path:
    folder = tmp_path_factory.mktemp("vllm") / "model"
    return keep(tiny_model_folder(folder, initializer_range=0.3))


@pytest.fixture
def own(model: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(model, tmp_path / "model"))


@pytest.fixture(scope="module")
def plain(model: Path) -> TransformersEngine:
    return open_engine(str(model), PROMPTING)


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    file = tmp_path / "mine.csv"
    file.write_text("question,answer,keywords\nwho wrote red,Ann,Ann\nwho wrote blue,Bob,Bob\n")
    return file


def evaluated(model: str, questions: Path, **how: Any) -> Run:
    study = {"decodings": [DECODING], "scorers": ["keyword"], **how}
    return evaluate(model, str(questions), out=questions.parent / "run", **study)


def opened(location: Path | str, prompting: Prompting = PROMPTING) -> VllmEngine:
    engine = open_engine(f"vllm:{location}", prompting)
    assert isinstance(engine, VllmEngine)
    return engine


@cache
def opened_once(location: Path) -> VllmEngine:
    """An engine for tests that ignore its requests; it caches its logits."""
    return opened(location)


def fake(engine: VllmEngine) -> fake_vllm.LLM:
    return engine.llm


def drawn(engine: Any, decoding: Decoding, draws: Draws) -> list[Sample]:
    return list(engine.generate(QUERIES, decoding, draws))


def test_the_models_own_generation_config_plays_no_part(own: Path) -> None:
    (own / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 5], "top_k": 3}))
    engine = opened(own)
    assert fake(engine).options["generation_config"] == "vllm"
    list(engine.generate(QUERIES, DECODING, Draws(sizes=(3,))))
    ((params, _), *_) = fake(engine).queried
    assert params.top_k == 0
    assert list(params.stop_token_ids) == [2, 5]


@pytest.mark.parametrize(
    "decoding",
    [
        pytest.param(DECODING, marks=pytest.mark.slow),
        Decoding(max_new_tokens=5, temperature=0.0),
        pytest.param(Decoding(max_new_tokens=5, temperature=0.5), marks=pytest.mark.slow),
        Decoding(max_new_tokens=5, temperature=2.0, top_k=3, top_p=0.8),
        pytest.param(Decoding(max_new_tokens=5, top_k=1), marks=pytest.mark.slow),
        Decoding(max_new_tokens=5, stop=("sky",)),
        Decoding(max_new_tokens=5, max_tokens=6),
    ],
    ids=lambda decoding: decoding.name,
)
def test_log_probabilities_are_those_of_the_decoding(
    decoding: Decoding, model: Path, plain: TransformersEngine
) -> None:
    """Against the transformers engine, which forces the same tokens under the same decoding."""
    known = {s.query: s.completions for s in drawn(plain, decoding, Draws(sizes=(400,)))}
    for sample in drawn(opened_once(model), decoding, Draws(sizes=(12,))):
        theirs = {c.token_ids: c for c in sample.completions}
        ours = {c.token_ids: c for c in known[sample.query]}
        both = theirs.keys() & ours.keys()
        assert both
        for ids in both:
            assert theirs[ids].logprob == pytest.approx(ours[ids].logprob, abs=1e-4)
            assert theirs[ids].answer == ours[ids].answer
            assert theirs[ids].finish == ours[ids].finish
            seen = theirs[ids].model_logprob
            assert seen is None or seen == pytest.approx(ours[ids].model_logprob, abs=1e-4)


def test_no_two_draws_of_a_run_share_a_seed(model: Path) -> None:
    engine = opened(model)
    for purpose in ("score", "other"):
        for first in (0, 2):
            draws = Draws(sizes=(4, 4), first_chunk=first, purpose=purpose)
            list(engine.generate(QUERIES, Decoding(max_new_tokens=1), draws))
    seeds = [params.seed + i for params, _ in fake(engine).queried for i in range(params.n)]
    assert len(set(seeds)) == len(seeds) == 2 * 2 * 2 * 8


def test_what_did_not_come_whole_is_no_sample(model: Path) -> None:
    engine, draws = opened(model), Draws(sizes=(4,))
    fake(engine).broken = True  # probabilities that are not numbers
    got = list(engine.generate(QUERIES, DECODING, draws))
    assert [type(each) for each in got] == [Failure, Failure]
    fake(engine).broken, fake(engine).short = False, True
    with pytest.raises(ModelError, match=r"returned 3 of 4 completions of query 'q0'"):
        list(engine.generate(QUERIES, DECODING, draws))


def test_it_proves_nothing_and_is_not_explored(model: Path, questions: Path) -> None:
    engine = opened_once(model)
    assert not isinstance(engine, Explores | Retraces)
    seen = Fingerprint.of(engine.fingerprint)
    assert not seen.repeatable
    assert any("float32" in each for each in seen.assumes)
    with pytest.raises(InputError, match="explor"):
        evaluated(f"vllm:{model}", questions, sampling=Explore("auto"))


def test_options_are_in_the_fingerprint_unless_of_the_layout(model: Path) -> None:
    plain, short, packed = (
        opened(f"{model}{options}").fingerprint
        for options in ("", "?max_model_len=64", "?max_num_seqs=4&gpu_memory_utilization=0.5")
    )
    assert plain == packed
    assert plain != short
    assert opened(f"{model}?max_num_seqs=4").machine == {"max_num_seqs": 4}


def test_an_adapter_is_applied_and_part_of_the_fingerprint(model: Path, tmp_path: Path) -> None:
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(json.dumps({"r": 20}))
    (adapter / "adapter_model.safetensors").write_bytes(b"one")
    engine = opened(f"{model}?lora={adapter}")
    list(engine.generate(QUERIES, DECODING, Draws(sizes=(2,))))
    ((_, request), *_) = fake(engine).queried
    assert request.lora_path == str(adapter)
    assert fake(engine).options["max_lora_rank"] == 32
    (adapter / "adapter_model.safetensors").write_bytes(b"two")
    assert opened(f"{model}?lora={adapter}").fingerprint != engine.fingerprint


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("?top_k=5", r"`top_k=5` is not an option for vLLM"),
        ("?data_parallel_size=2", r"not work within one vLLM"),
        ("?lora=/nowhere", r"has no adapter_config.json"),
        ("?tensor_parallel_size=2", r"World size .* Fix the options after the `\?`"),
    ],
)
def test_options_that_are_not_taken_are_refused(options: str, why: str, model: Path) -> None:
    with pytest.raises((InputError, ModelError), match=why):
        opened(f"{model}{options}")


@pytest.mark.parametrize(
    ("decoding", "why"),
    [
        (Decoding(adaptive_temperature=0.5), "not support adaptive_temperature"),
        (Decoding(temperature=0.001), "not draw at a temperature between 0 and 0.01"),
        (Decoding(max_new_tokens=200), "exceed the model's context of 128"),
    ],
)
def test_what_cannot_be_drawn_is_refused_early(decoding: Decoding, why: str, model: Path) -> None:
    with pytest.raises(InputError, match=why):
        opened_once(model).check(QUERIES, decoding)


def test_a_run_resumes_with_no_other_engine(model: Path, questions: Path) -> None:
    run = evaluated(f"vllm:{model}", questions, n=8)
    worst = run.estimates.worst("leak probability")
    assert 0 <= worst.lower <= worst.upper <= 1
    with pytest.raises(MixError, match="engine"):
        evaluated(str(model), questions, n=8)


HARMFUL = "{% if 'sea' in messages[0].content %}{{ 1 / 0 }}{% endif %}" + CHATML


@pytest.mark.parametrize(
    ("template", "why"),
    [
        (HARMFUL, "refused the prom"),
        ("What is it?", r"in `.*chat_template\.jinja` changes or omits the question"),
    ],
)
def test_a_chat_template_is_tried_before_vllm_loads(
    template: str, why: str, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own / "chat_template.jinja").write_text(template)
    monkeypatch.setattr(sys.modules["vllm"], "LLM", None)
    with pytest.raises((InputError, ModelError), match=why):
        open_engine(f"vllm:{own}", Prompting(), queries=QUERIES)


def test_thoughts_are_split_and_aborts_missing(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = tiny_tokenizer([*WORDS, "<think>", "</think>"])
    tiny_llama(len(tokenizer), initializer_range=0.3).save_pretrained(own)
    tokenizer.save_pretrained(own)
    engine = open_engine(f"vllm:{own}", Prompting(template="{question} <think>"))
    plain = open_engine(str(own), Prompting(template="{question} <think>"))
    for sample in drawn(engine, DECODING, Draws(sizes=(40,))):
        outputs = [(sample.query, c.token_ids or ()) for c in sample.completions]
        for one, other in zip(sample.completions, plain.force_ids(outputs, DECODING), strict=True):
            assert (one.thought, one.answer) == (other.thought, other.answer)
            assert (one.finish, one.tokens) == (other.finish, len(one.token_ids or ()))
        closed = [c for c in sample.completions if c.answer]
        assert closed
        assert any(c.thought and not c.answer for c in sample.completions)
    draw = sys.modules["vllm"].LLM._draw

    def aborted(self: Any, *call: Any) -> Any:
        output = draw(self, *call)
        output.finish_reason = "abort"
        return output

    monkeypatch.setattr(sys.modules["vllm"].LLM, "_draw", aborted)
    for sample in drawn(engine, DECODING, Draws(sizes=(3,))):
        assert {c.finish for c in sample.completions} == {"error"}
        assert all(is_missing(c, counted_as(c)) for c in sample.completions)


def test_a_turn_ends_where_the_template_ends_it(own: Path) -> None:
    tokenizer = tiny_tokenizer([*WORDS])
    tokenizer.add_tokens(["<|im_end|>"], special_tokens=True)
    tiny_llama(len(tokenizer)).save_pretrained(own)
    tokenizer.save_pretrained(own)
    (own / "chat_template.jinja").write_text(CHATML)
    engine = open_engine(f"vllm:{own}", Prompting(), queries=QUERIES)
    engine.check(QUERIES, DECODING)
    assert len(drawn(engine, DECODING, Draws(sizes=(3,)))) == len(QUERIES)
    ((params, _), *_) = fake(engine).queried
    turn = tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert list(params.stop_token_ids) == [2, turn] == engine.fingerprint["end_tokens"]
    assert any("'<|im_end|>'" in note for note in engine.usage.notes)
