"""On-demand queries answered by shared structures over the final events, with the pending ones on top."""
