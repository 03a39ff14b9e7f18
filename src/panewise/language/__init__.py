"""The language: text to statements to bound queries, and back to text."""
