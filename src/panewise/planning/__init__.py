"""Planning: queries in, a plan out."""
