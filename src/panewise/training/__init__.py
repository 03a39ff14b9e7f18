"""Training sets: labels with the answers of queries as they were at each label's time."""
