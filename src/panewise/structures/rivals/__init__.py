"""Rivals: what the papers compare with. No query needs them; `USING` and the benchmarks can name them."""
