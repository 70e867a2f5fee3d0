"""Retrieval from fitted factors: exact top-K lists under filters, similar rows, scores."""
