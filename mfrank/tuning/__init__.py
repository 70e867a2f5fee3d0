"""The search for the best model of a table of interactions: :func:`mfrank.tune`."""
