"""How a trained model writes, and what it costs: items 57 to 59."""
