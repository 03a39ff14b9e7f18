"""Row queries in the engine: one operator a file, all fed with final events in the order of their streams."""
