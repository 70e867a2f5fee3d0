"""Comparison of models, implicit's included, on one split with equal measurements."""
