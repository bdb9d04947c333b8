"""Sampling over a next-token-distribution seam."""

from residua.sampling.forest import Forest, Leaf, Root, Tree
from residua.sampling.model import PrefixModel
from residua.sampling.table import TableModel

__all__ = ["Forest", "Leaf", "PrefixModel", "Root", "TableModel", "Tree"]
