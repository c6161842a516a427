"""The estimators inside other people's trainers: docs/how-to/other-trainers.md."""
