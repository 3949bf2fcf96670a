"""Images: what a serving image is built from, who holds it, and who sends it to whom."""
