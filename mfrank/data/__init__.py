"""The data a fit starts from: interactions and their ids, files, splits, synthetic data."""
