"""The model as a whole and its training: items 50 to 56."""
