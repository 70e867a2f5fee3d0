"""Supervised PageRank as a recommender."""
