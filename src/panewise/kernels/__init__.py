"""Kernels: arrays in, arrays out, compiled by numba. No objects."""

from panewise.kernels.compiled_files import number_at_random
from panewise.kernels.compiled_folder import keep_in_one_folder

number_at_random()
keep_in_one_folder()
