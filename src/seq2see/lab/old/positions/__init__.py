"""Where a token stands: items 30 to 37."""
