"""Sampling over a next-token-distribution seam."""

from residua.sampling.explore import Explored, Explorer
from residua.sampling.forced import force
from residua.sampling.forest import Forest, Leaf, Root, Tree
from residua.sampling.model import PrefixModel
from residua.sampling.search import Node, Settle
from residua.sampling.table import TableModel

__all__ = [
    "Explored",
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
