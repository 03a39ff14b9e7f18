"""Aggregates: what each is made of, the laws it obeys, and how partials become answers."""
