"""The factor store that every fitter ends in: checked, saved atomically, exchanged."""
