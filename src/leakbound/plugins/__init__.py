"""Bounds inside the tools in which people evaluate models; each module is one tool's plug-in."""
