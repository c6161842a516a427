"""The plan of the small model: what `make demo-full` runs."""
