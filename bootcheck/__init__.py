"""Probes and gates: what a node says, and whether a line may be booted on it."""
