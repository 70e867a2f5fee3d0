"""Training data: interactions and their ids, judged documents, files, splits, synthetic data."""
