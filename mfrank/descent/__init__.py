"""Stochastic gradient descent for any ranking loss: sampling, factor tables, optimizers."""
