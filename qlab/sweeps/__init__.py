"""A function, called with each point of a grid: `sweeping` puts what it returns in one frame."""
