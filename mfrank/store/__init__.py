"""The factor store, the result of every fit: checked, saved atomically, exchanged."""
