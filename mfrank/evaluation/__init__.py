"""Ranking evaluation: metrics as values, full-ranking evaluation, paired comparisons."""
