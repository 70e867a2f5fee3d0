"""Levers by which people steer lists: boosts, popularity, caps, diversity, calibration."""
