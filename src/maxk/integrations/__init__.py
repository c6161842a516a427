"""The estimators inside other people's trainers: docs/integrations.md."""
