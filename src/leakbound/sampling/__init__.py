"""Sampling over a next-token-distribution seam."""

from leakbound.sampling.explore import ExploredTree, Explorer
from leakbound.sampling.forced import force
from leakbound.sampling.forest import Forest, Leaf, Root, Tree
from leakbound.sampling.model import PrefixModel
from leakbound.sampling.search import Node, Settle
from leakbound.sampling.table import TableModel

__all__ = [
    "ExploredTree",
    "Explorer",
    "Forest",
    "Leaf",
    "Node",
    "PrefixModel",
    "Root",
    "Settle",
    "TableModel",
    "Tree",
    "force",
]
