"""Learning: one loop, and every method a value that fills its slots."""
