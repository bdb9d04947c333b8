"""Draw, explore, teacher-force and search outputs of a model that computes next-token logits."""

from __future__ import annotations

from leakbound.sampling.explore import Explorer as Explorer
from leakbound.sampling.forced import force as force
from leakbound.sampling.forest import Forest as Forest
from leakbound.sampling.model import OutputTree as OutputTree
from leakbound.sampling.model import PrefixModel as PrefixModel
from leakbound.sampling.model import TableModel as TableModel
from leakbound.sampling.search import Settle as Settle
from leakbound.sampling.stems import Root as Root
from leakbound.sampling.stems import Tree as Tree
