"""The bench of engines converts models exactly, and tells one law from another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

BENCH = Path(__file__).parents[1] / "bench"


@pytest.fixture(autouse=True)
def _bench(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("gguf")
    monkeypatch.syspath_prepend(str(BENCH))


def test_a_gguf_file_is_read_back_with_the_same_logits(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    import torch

    from leakbound.benchmarks import load_benchmark
    from leakbound.demo.model import write_untrained
    from leakbound.engines.loading import load_model
    from peers.to_gguf import write_gguf

    folder = tmp_path / "model"
    write_untrained(folder, load_benchmark("fictitious").prompts[:4], "{question}", seed=1)
    ids = torch.arange(2, 30)[None]
    with torch.inference_mode():
        true = load_model(str(folder)).model(ids).logits
        file = str(write_gguf(folder, tmp_path / "f32.gguf"))
        capfd.readouterr()
        same = load_model(file).model(ids).logits
        assert capfd.readouterr() == ("", "")  # no bar
        near = load_model(str(write_gguf(folder, tmp_path / "q8.gguf", "q8"))).model(ids).logits
    torch.testing.assert_close(same, true, rtol=0, atol=1e-6)
    assert 0 < float((near - true).abs().max()) < 0.1 * float(true.abs().max())


def test_draws_of_two_tokens_are_held_against_their_exact_law(tmp_path: Path) -> None:
    import torch

    from engines import Ruler, chi_square, two_tokens
    from peers.engine_worker import Forest

    contest = two_tokens(tmp_path)
    work = contest.work
    engine = Forest(contest.folder, work, torch.get_num_threads())
    drawn = engine.read(engine.draw(work), work)[0]
    ruler = Ruler(contest.folder)
    assert len(drawn) == work.n
    assert chi_square(ruler, work.prompts[0], drawn, work.new) > 0.001
    fair = np.random.default_rng(0).integers(2, size=(work.n, work.new)).tolist()
    assert chi_square(ruler, work.prompts[0], fair, work.new) < 1e-9


def test_other_lengths_and_other_probabilities_are_another_law(tmp_path: Path) -> None:
    from engines import Ruler, read, same_law, two_tokens

    contest = two_tokens(tmp_path)
    ruler = Ruler(contest.folder)
    random = np.random.default_rng(1)
    draws = random.integers(2, size=(600, 5)).tolist()
    one = read(contest, ruler, [draws[:300]])
    assert min(same_law(one, read(contest, ruler, [draws[300:]]))) > 0.001
    lengths, _ = same_law(one, read(contest, ruler, [[x[:4] for x in draws[300:]]]))
    assert lengths < 1e-9
    _, probabilities = same_law(one, read(contest, ruler, [[[1] * 5] * 300]))
    assert probabilities < 1e-9
