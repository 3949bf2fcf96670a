"""Recipes, commands and launch: from a recipe and a line to ranks that answer sensibly."""
