"""What the notebooks show, cell by cell, as far as their text speaks of it."""
