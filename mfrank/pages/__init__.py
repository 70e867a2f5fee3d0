"""A model to look at: a local site of pages that also answer in JSON."""
