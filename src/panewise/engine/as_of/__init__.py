"""Answers as of many times: every asked key at its own time, in one pass over the events.

`events` orders them once, `substreams` by key, `ranges` finds what each window covers, `values` builds what folds it,
and `answers` puts the answers of all queries together.
"""
