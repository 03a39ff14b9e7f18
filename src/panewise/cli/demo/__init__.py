"""The flights: `panewise demo` answers queries over a year of them on Spark, `panewise serve --demo` replays them."""
