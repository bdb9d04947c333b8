"""Membership attacks and memorisation: measure whether a model was trained on a text.

The score of an attack is a loss: with a higher score, the text is *less* likely to be a member of
the training data. Min-k is from Shi et al. (2024): minus the mean log-probability of the 40 % least
likely tokens. Min-k++ is from Zhang et al. (2024). Both exclude the end token, as in
OpenUnlearning. The norm of the gradient is used as a score directly.

Memorisation is measured by the tokens of an answer, without the end token, that
the model completes, as in OpenUnlearning. Exact memorisation is from Tirumala
et al. (2022); extraction strength is from Carlini et al. (2021), in tokens.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from leakbound.errors import InputError
from leakbound.metrics.likelihood import TINY, loss
from leakbound.types import Compat, Reading

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

SHARE = 0.4  # the fraction of tokens for min-k and min-k++
CHANCE = 0.5  # the AUC of two equal distributions
_LEAST_STD = 1e-3  # the root of OpenUnlearning's minimum variance of log-probabilities, 1e-6


def zlib_score(reading: Reading) -> float:
    """Return the loss per compressed byte. So simple texts do not look like members."""
    return loss(reading) / len(zlib.compress(reading.text.encode("utf-8", "surrogatepass")))


def min_k(reading: Reading, share: float = SHARE) -> float:
    """Return minus the mean log-probability of the fraction `share` of least likely tokens."""
    return _least(reading.logprobs[:-1], share)


def min_k_plus_plus(reading: Reading, share: float = SHARE) -> float:
    """Return `min_k` of log-probabilities that are standardised over the vocabulary per token."""
    spread = np.maximum(reading.std, _LEAST_STD)
    return _least(((reading.logprobs - reading.mean) / spread)[:-1], share)


def auc(forget: ArrayLike, holdout: ArrayLike) -> float:
    """Return the probability that a holdout text scores above a forget text; ties count half.

    This is the area under the ROC curve with forget texts as class 0 and holdout texts as class 1.
    Near 1, the attack recognises that the model was trained on the forget set; near 0.5, it does
    not.
    """
    low, high = np.sort(np.asarray(forget, np.float64)), np.asarray(holdout, np.float64)
    below = np.searchsorted(low, high, "left") + np.searchsorted(low, high, "right")
    return float(below.mean() / 2 / len(low))


def privleak(auc: float, retrained: float = CHANCE) -> float:
    """Return the change of 1 - AUC, in percent of the retrained model's 1 - AUC; 0 is best.

    The definition is from Shi et al. (2024), "MUSE", with the AUCs of `min_k`. Below 0, the model
    still knows the forget set. Above 0, it avoids the forget set more than the retrained model
    does. Without a retrained model, its AUC is assumed to be 1/2, as in OpenUnlearning. This is the
    AUC of a model that saw neither the forget set nor the holdout set.
    """
    return rel_diff(1 - auc, 1 - retrained)


def rel_diff(value: float, retrained: float = CHANCE) -> float:
    """Return the change of a statistic in percent of its value for the retrained model.

    OpenUnlearning applies `rel_diff` to the AUC, and `privleak` to 1 - AUC.
    """
    return 100 * (value - retrained) / (retrained + TINY)


def _least(values: NDArray[np.float64], share: float) -> float:
    if not len(values):
        raise InputError(
            "min-k needs a token before the end token, got none. Use an answer with text."
        )
    return -float(np.sort(values)[: max(1, int(len(values) * share))].mean())


def exact_memorisation(reading: Reading) -> float:
    """Return the fraction of the answer's tokens that are the likeliest next token, in [0, 1]."""
    return float(_answer(reading).mean())


def extraction_strength(reading: Reading, *, compat: Compat | None = None) -> float:
    """Return the fraction of the answer in the longest ending that greedy decoding completes.

    The value is 1 - k/n, in [0, 1], for an answer with n tokens. k is the smallest number such that
    all tokens after the first k are the likeliest next tokens. The value is 0 if the last token is
    not the likeliest; in OpenUnlearning, and with `compat="openunlearning"`, it is then 1/n.
    """
    top = _answer(reading)
    missed = np.flatnonzero(~top)
    ending = len(top) - (missed[-1] + 1 if len(missed) else 0)
    if compat == "openunlearning":
        ending = max(ending, 1)
    return float(ending / len(top))


def _answer(reading: Reading) -> NDArray[np.bool_]:
    """Return whether each token of the answer, without its end token, is the likeliest."""
    if len(reading.top) < 2:
        raise InputError(
            "memorisation needs a token before the end token, got an answer of "
            f"{len(reading.top)} tokens with its end token. Use an answer with text."
        )
    return reading.top[:-1]
