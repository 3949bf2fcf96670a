"""Serving: what this package adds to a running vLLM, each feature switched on by a setting and off by leaving that out."""
