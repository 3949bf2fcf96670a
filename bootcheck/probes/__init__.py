"""Probes: each a command, its limits and a pure parser; `table` has all of them, and nothing here runs anything.

A probe is a row in its module's own PROBES, a fact and a parser beside it, and cases under tests/bootcheck/cases/<probe>/.
"""
