"""Kernels: arrays in, arrays out, compiled by numba. No objects."""

from weft.kernels.compiled_files import number_at_random

number_at_random()
