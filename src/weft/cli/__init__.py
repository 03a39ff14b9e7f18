"""The `weft` command: one file a command, each importing what it needs only when it runs."""
