"""Shared ground of sparkctl: errors, units, clock, content, edge, inventory and the doorways to the nodes."""

__version__ = "0.1.0"
