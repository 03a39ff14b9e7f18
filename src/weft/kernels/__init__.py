"""Kernels: arrays in, arrays out, compiled by numba. No objects."""
