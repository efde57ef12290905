"""What a query must not see: items 45 to 49."""
