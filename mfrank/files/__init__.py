"""Files that are whole or not there: durable, replaced at once, read without trust."""
