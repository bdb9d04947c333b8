"""Round weights to few values, or set the smallest weights to 0.

As usual in quantisation, only matrices of linear layers change, but not the output head and the
embeddings. The method is round-to-nearest, not GPTQ or AWQ, which use data. Computations stay in
float. So the distribution of the rounded model can be computed exactly, and proofs remain possible.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from leakbound.stress.bench import Bench, OfWeights
from leakbound.types import during
from leakbound.types.decoding import require

if TYPE_CHECKING:
    from torch import Tensor

GROUP = 64
"""Number of neighbouring weights in a row that share a scale, as in bitsandbytes."""
NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0,
)  # fmt: skip
"""The 16 values of NormalFloat (Dettmers et al. 2023, appendix E)."""
Values = Literal["int8", "int4", "nf4"]


class _Changed(OfWeights):
    """A change of each weight matrix separately."""

    @abstractmethod
    def changed(self, weight: Tensor) -> Tensor:
        """Return the changed matrix (rows, columns), with inputs along the columns."""

    def make(self, bench: Bench, model: str, out: Path) -> None:
        import torch  # specs are parsed without torch

        from leakbound.engines.loading import load_model, save_model
        from leakbound.unlearning.weights import matrices

        with during(bench.progress, f"{self.spec} of {Path(model).name}"):
            loaded = load_model(model, **bench.settings.loading)
            with torch.no_grad():
                for weight in matrices(loaded.model):
                    weight.copy_(self.changed(weight))
            save_model(loaded.model, loaded.tokenizer, out)


@dataclass(frozen=True, slots=True)
class Round(_Changed):
    """Round each weight to the nearest of few values.

    The values are multiplied by the largest magnitude in the weight's group of neighbours.

    Attributes:
        values: `int8` has 255 values and `int4` has 15, evenly spread around 0. `nf4` has 16 values
            (see `NF4`).
    """

    values: Values
    name: ClassVar[str] = "round"

    def changed(self, weight: Tensor) -> Tensor:
        from torch.nn.functional import pad

        rows, columns = weight.shape
        groups = pad(weight.float(), (0, -columns % GROUP)).reshape(rows, -1, GROUP)
        scale = groups.abs().amax(-1, keepdim=True)
        scale = scale.where(scale > 0, 1.0)
        return (_ROUNDED[self.values](groups / scale) * scale).reshape(rows, -1)[:, :columns]


def _even(levels: int) -> Callable[[Tensor], Tensor]:
    return lambda within: (within * levels).round() / levels


def _nearest_nf4(within: Tensor) -> Tensor:
    import torch

    values = torch.tensor(NF4)
    return values.to(within.device)[torch.bucketize(within.cpu(), (values[1:] + values[:-1]) / 2)]


_ROUNDED: dict[str, Callable[[Tensor], Tensor]] = {
    "int8": _even(127),
    "int4": _even(7),
    "nf4": _nearest_nf4,
}


@dataclass(frozen=True, slots=True)
class Prune(_Changed):
    """Set the weights of each matrix with the smallest magnitudes to 0.

    Attributes:
        share: the fraction of a matrix's weights, in (0, 1).
    """

    share: float
    name: ClassVar[str] = "prune"

    def __post_init__(self) -> None:
        require(0 < self.share < 1, "share", self.share, "between 0 and 1, such as 0.3")

    def changed(self, weight: Tensor) -> Tensor:
        count = int(self.share * weight.numel())
        if not count:
            return weight
        flat = weight.flatten()
        # sorted, not below a threshold: exactly `count` weights change
        smallest = flat.abs().argsort(stable=True)[:count]
        return flat.index_fill(0, smallest, 0.0).reshape(weight.shape)
