"""The defaults are the paper's."""

from __future__ import annotations

from leakbound.unlearning import TrainingSettings


def test_defaults_are_those_of_scholten_et_al() -> None:
    settings = TrainingSettings()
    assert (settings.epochs, settings.learning_rate, settings.batch_size) == (10, 1e-5, 32)
    assert (settings.schedule, settings.warmup_ratio, settings.weight_decay) == (
        "cosine",
        0.1,
        0.01,
    )
    assert settings.weights.everything
    assert not settings.bf16
