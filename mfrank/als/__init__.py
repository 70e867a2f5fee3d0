"""Alternating least squares: quadratic objectives, half-steps, initialization, fold-in."""
