"""Changes of stored keys."""
