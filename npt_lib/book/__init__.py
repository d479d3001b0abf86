"""What the pages of the book need: exercises and their checks, figures, plots, explorers."""
