"""Files that are complete or not there: durable, replaced atomically, not trusted when read."""
