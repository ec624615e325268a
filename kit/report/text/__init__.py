"""A session for a terminal: answer, table, sentences, progress."""
