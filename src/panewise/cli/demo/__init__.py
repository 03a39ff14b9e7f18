"""`panewise demo`: a hundred and more queries over a year of flights on Spark, and ten of them by plain Spark."""

from panewise.cli.demo.demo import run_demo

__all__ = ["run_demo"]
