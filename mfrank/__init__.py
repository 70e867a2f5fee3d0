"""mfrank: matrix factorization for implicit feedback, with closed-form ranking losses."""

from mfrank.objectives import EALS, IALS, RG2, RGX, WRMF, RG2Sampled, RGXPrinted

__all__ = ["EALS", "IALS", "RG2", "RGX", "WRMF", "RG2Sampled", "RGXPrinted", "__version__"]

__version__ = "0.1.0"
