"""The engine: events in, answers out, in one process."""
