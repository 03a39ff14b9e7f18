"""The parts of `panewise bench peers`.

Each way of answering (`duckdb_panes`, `flink_hop`, ...) is one program with an interpreter of its own: `program` has
what they share, `queries` what they are told, and both need only the standard library. The rest belongs to the
benchmark's own process: `ways` lists the programs, `environments` makes their interpreters, `data` writes events and
descriptions, `processes` runs a program under a time limit, `checksums` reads its answers, `picture` draws.
"""
