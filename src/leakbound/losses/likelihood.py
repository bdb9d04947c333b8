"""Losses on the likelihood of an answer, and on the entropy of its next-token distributions.

Gradient ascent (`ga`) is from Yao et al. (2023), in the form of Maini et al. (2024). `kl` is the
retain term of the KL minimisation of Maini et al. `idk` is fine-tuning on answers such as "I don't
know". The entropy loss is from Scholten et al. (2025).

Deviations: A value is the mean over the tokens of one answer, so the mean over answers weights each
answer equally. The published code computes one mean over all tokens of a batch, as the setting
`reduce` of a term can do. `kl` compares distributions at the answer's tokens. The published code
compares them at every position, including padding. Entropy is the mean over the answer's tokens.
The published code averages over every position of the padded text. For both losses, `over` "all"
uses every position except padding.

Weighted gradient ascent (`wga`) is from Wang et al. (2025). It weights each token by the token's
own probability, so it lowers the probabilities of likely tokens most. The saturation and importance
weights of `satimp` are from Yang et al. (2025). p is the probability of a token of the answer.
Weights are constants: only log p is differentiated.
"""

from __future__ import annotations

from torch import Tensor

from leakbound.losses.family import covered, frozen_logits, not_negative
from leakbound.losses.inputs import LossInputs, given, precise


def token_nll(batch: LossInputs) -> Tensor:
    """Return the cross-entropy of every labelled token, in nats, [N].

    Args:
        batch: the packed answers; uses `logits` and `labels`.

    Returns:
        One value per labelled token, [N], in nats, at least 0.
    """
    return -batch.log_probs.gather(1, batch.labels[:, None]).squeeze(1)


def sequence_nll(batch: LossInputs) -> Tensor:
    """Return the summed token cross-entropy of each answer, in nats, [B].

    Args:
        batch: the packed answers; uses `logits` and `labels`.

    Returns:
        One value per answer, [B], in nats, at least 0.
    """
    return batch.sums(token_nll(batch))


def nll(batch: LossInputs) -> Tensor:
    """Return the mean token cross-entropy of each answer, nll/|y|, [B].

    Args:
        batch: the packed answers; uses `logits` and `labels`.

    Returns:
        One value per answer, [B], in nats, at least 0.
    """
    return batch.means(token_nll(batch))


def ga(batch: LossInputs) -> Tensor:
    """Return -nll/|y| of each answer, the loss of gradient ascent, [B] (Yao et al. 2023).

    Args:
        batch: the packed answers; uses `logits` and `labels`.

    Returns:
        One value per answer, [B], in nats, at most 0; unbounded below.
    """
    return -nll(batch)


def idk(batch: LossInputs) -> Tensor:
    """Return the mean token cross-entropy of each alternate answer, [B] (Maini et al. 2024).

    Args:
        batch: the packed answers; uses `logits` and `labels` of `alternate`.

    Returns:
        One value per answer, [B], in nats, at least 0.

    Raises:
        InputError: the batch has no `alternate`.
    """
    return nll(given(batch.alternate, "alternate", "idk"))


def kl(batch: LossInputs, *, over: str = "answer") -> Tensor:
    """Return the mean of KL(reference ‖ model) over each answer's tokens, [B] (Maini et al. 2024).

    The complete next-token distributions are compared, not only the probabilities of the answer's
    tokens.

    Args:
        batch: the packed answers; uses `logits` and `reference_logits`, which are parts of `whole`
            if `over` is "all".
        over: "answer", or "all" for every token of prompt and answer.

    Returns:
        One value per answer, [B], in nats, at least 0.

    Raises:
        InputError: an unknown `over`, or a part that the batch lacks.
    """
    part = covered(batch, "kl", over, "all")
    log_reference = precise(frozen_logits(part, "kl", over)).detach().log_softmax(dim=1)
    return part.means((log_reference.exp() * (log_reference - part.log_probs)).sum(dim=1))


def entropy(batch: LossInputs, *, over: str = "answer") -> Tensor:
    """Return the mean entropy of the T = 1 next-token distribution over each answer, [B].

    In an objective, a positive weight of this loss makes the model more confident, and a negative
    weight makes it more diverse (Scholten et al. 2025).

    Args:
        batch: the packed answers; uses `logits`, a part of `whole` if `over` is "all".
        over: "answer", or "all" for every token of prompt and answer.

    Returns:
        One value per answer, [B], in nats, in [0, ln V].

    Raises:
        InputError: an unknown `over`, or a batch without `whole`.
    """
    part = covered(batch, "entropy", over, "all")
    log_probs = part.log_probs
    return part.means(-(log_probs.exp() * log_probs).sum(dim=1))


def wga(batch: LossInputs, *, beta: float = 1.0) -> Tensor:
    """Return the mean of p^β log p over each answer's tokens, p^β constant, [B] (Wang et al. 2025).

    β = 0 is gradient ascent. With β > 0, tokens that are already unlikely have little influence.

    Args:
        batch: the packed answers; uses `logits` and `labels`.
        beta: β, 0 or more.

    Returns:
        One value per answer, [B], in nats, at most 0; at least -1/(eβ) for β > 0.

    Raises:
        InputError: `beta` is below 0 or not finite.
    """
    not_negative("wga", beta=beta)
    return _ascent(batch, beta, 0.0)


def satimp(batch: LossInputs, *, beta1: float = 5.0, beta2: float = 1.0) -> Tensor:
    """Return the mean of p^β₁ (1 - p)^β₂ log p over each answer's tokens, weights constant, [B].

    The weight p^β₁ is small for tokens that the model no longer predicts. The weight (1 - p)^β₂ is
    small for tokens that any model predicts (Yang et al. 2025).

    Args:
        batch: the packed answers; uses `logits` and `labels`.
        beta1: β₁, 0 or more.
        beta2: β₂, 0 or more.

    Returns:
        One value per answer, [B], in nats, at most 0; at least -1/(eβ₁) for β₁ > 0.

    Raises:
        InputError: `beta1` or `beta2` is below 0 or not finite.
    """
    not_negative("satimp", beta1=beta1, beta2=beta2)
    return _ascent(batch, beta1, beta2)


def _ascent(batch: LossInputs, beta1: float, beta2: float) -> Tensor:
    log_p = -token_nll(batch)
    constant = log_p.detach()
    return batch.means((beta1 * constant).exp() * (-constant.expm1()) ** beta2 * log_p)
