"""The parts of `weft bench peers`.

One program for each way of answering (`duckdb_panes`, `flink_hop`, ...), run by an interpreter of its own: `program` is
what they have in common, `queries` what they are told, and both need the standard library only. The rest belongs to the
benchmark's own process: `ways` lists the programs, `environments` makes their interpreters, `data` writes events and
descriptions, `processes` runs a program under a time limit, `checksums` reads what it delivered, `picture` draws.
"""
