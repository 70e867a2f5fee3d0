"""How good rankings are: metrics as values, full-ranking evaluation, paired comparisons."""
