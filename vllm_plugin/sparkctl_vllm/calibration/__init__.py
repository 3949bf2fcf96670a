"""Calibration: from a model and decode-like text to a plan file, layer by layer: record, measure, cost, sort, price."""
