"""Aggregates: their components, the laws they obey, and how partials become answers."""
