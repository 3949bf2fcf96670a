"""The served engine of a practice line: one process a rank, standard library only so that it starts quickly."""
