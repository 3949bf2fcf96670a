"""Quality: what a lever or a compressed checkpoint does to what a model says, against what a mere restart does to it."""
