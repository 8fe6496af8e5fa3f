"""Decoders: bind a measurement matrix once, decode any number of batches."""
