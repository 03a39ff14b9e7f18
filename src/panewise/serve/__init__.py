"""Answers over HTTP: `panewise serve`, and clients for it."""
