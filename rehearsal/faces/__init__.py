"""The commands that a practice node answers itself; each reads the node's one hidden state."""
