"""The next-token distributions at an answer's tokens: its likelihood, and their entropy.

Gradient ascent is Yao et al. (2023), as used by Maini et al. (2024). `kl` is the anchor of their
KL minimisation, `idk` fine-tuning on answers that admit ignorance. Deviations: a value is the mean
over one answer, whose mean over answers weighs each of them alike, where the published code takes
one mean over all tokens of a batch (`reduce` of a term does); and `kl` compares at the answer's
tokens, where theirs does at every position, padding included (over "all": without padding).
Entropy is that of Scholten et al. (2025); the mean runs over the answer's own tokens, where the
published code averages over every position of the padded text (over "all": without padding).

Gradient ascent that weighs each token by its own probability, so that what is known loses most, is
Wang et al. (2025), saturation and importance weights are Yang et al. (2025). With p_t the
probability that the model gives the answer's token t, the weights are numbers and not functions of
the model: nothing is differentiated but log p_t.
"""

from __future__ import annotations

from torch import Tensor

from leakbound.losses.family import covered, frozen_logits, not_negative
from leakbound.losses.inputs import LossInputs, given, precise


def token_nll(batch: LossInputs) -> Tensor:
    """Cross-entropy of every labelled token, in nats, [N].

    Args:
        batch: the packed answers; takes `logits` and `labels`.

    Returns:
        One value a labelled token, [N], in nats, at least 0.
    """
    return -batch.log_probs.gather(1, batch.labels[:, None]).squeeze(1)


def sequence_nll(batch: LossInputs) -> Tensor:
    """Summed token cross-entropy of each answer, in nats, [B].

    Args:
        batch: the packed answers; takes `logits` and `labels`.

    Returns:
        One value an answer, [B], in nats, at least 0.
    """
    return batch.sums(token_nll(batch))


def nll(batch: LossInputs) -> Tensor:
    """Mean token cross-entropy of each answer, nll/|y|, [B].

    Args:
        batch: the packed answers; takes `logits` and `labels`.

    Returns:
        One value an answer, [B], in nats, at least 0.
    """
    return batch.means(token_nll(batch))


def ga(batch: LossInputs) -> Tensor:
    """Gradient ascent, -nll/|y|, [B] (Yao et al. 2023).

    Args:
        batch: the packed answers; takes `logits` and `labels`.

    Returns:
        One value an answer, [B], in nats, at most 0; unbounded below.
    """
    return -nll(batch)


def idk(batch: LossInputs) -> Tensor:
    """Mean token cross-entropy of each alternate answer, [B] (Maini et al. 2024).

    Args:
        batch: the packed answers; takes `logits` and `labels` of `alternate`.

    Returns:
        One value an answer, [B], in nats, at least 0.

    Raises:
        InputError: the batch has no `alternate`.
    """
    return nll(given(batch.alternate, "alternate", "idk"))


def kl(batch: LossInputs, *, over: str = "answer") -> Tensor:
    """Mean over each answer's tokens of KL(reference ‖ model), [B] (Maini et al. 2024).

    The whole next-token distributions are compared, so nothing that the reference gives mass to
    may be lost.

    Args:
        batch: the packed answers; takes `logits` and `reference_logits`, of `whole` over "all".
        over: "answer", or "all" for every token of prompt and answer.

    Returns:
        One value an answer, [B], in nats, at least 0.

    Raises:
        InputError: another `over`, or a part that the batch has not.
    """
    part = covered(batch, "kl", over, "all")
    log_reference = precise(frozen_logits(part, "kl", over)).detach().log_softmax(dim=1)
    return part.means((log_reference.exp() * (log_reference - part.log_probs)).sum(dim=1))


def entropy(batch: LossInputs, *, over: str = "answer") -> Tensor:
    """Mean entropy of the T = 1 next-token distribution over each answer, [B].

    A positive weight makes the model surer, a negative one more diverse (Scholten et al. 2025).

    Args:
        batch: the packed answers; takes `logits`, of `whole` over "all".
        over: "answer", or "all" for every token of prompt and answer.

    Returns:
        One value an answer, [B], in nats, in [0, ln V].

    Raises:
        InputError: another `over`, or the batch has no `whole`.
    """
    part = covered(batch, "entropy", over, "all")
    log_probs = part.log_probs
    return part.means(-(log_probs.exp() * log_probs).sum(dim=1))


def wga(batch: LossInputs, *, beta: float = 1.0) -> Tensor:
    """Mean over each answer's tokens of p^β log p, p^β constant, [B] (Wang et al. 2025).

    Gradient ascent for β = 0; for β > 0 tokens which are unlikely already move nothing.

    Args:
        batch: the packed answers; takes `logits` and `labels`.
        beta: β, 0 or more.

    Returns:
        One value an answer, [B], in nats, at most 0; at least -1/(eβ) for β > 0.

    Raises:
        InputError: `beta` is below 0 or not finite.
    """
    not_negative("wga", beta=beta)
    return _ascent(batch, beta, 0.0)


def satimp(batch: LossInputs, *, beta1: float = 5.0, beta2: float = 1.0) -> Tensor:
    """Mean over each answer's tokens of p^β₁ (1 - p)^β₂ log p, the weights constant, [B].

    p^β₁ spares what is forgotten already, (1 - p)^β₂ what any model would say (Yang et al. 2025).

    Args:
        batch: the packed answers; takes `logits` and `labels`.
        beta1: β₁, 0 or more.
        beta2: β₂, 0 or more.

    Returns:
        One value an answer, [B], in nats, at most 0; at least -1/(eβ₁) for β₁ > 0.

    Raises:
        InputError: `beta1` or `beta2` is below 0 or not finite.
    """
    not_negative("satimp", beta1=beta1, beta2=beta2)
    return _ascent(batch, beta1, beta2)


def _ascent(batch: LossInputs, beta1: float, beta2: float) -> Tensor:
    log_p = -token_nll(batch)
    constant = log_p.detach()
    return batch.means((beta1 * constant).exp() * (-constant.expm1()) ** beta2 * log_p)
