"""Encoders: scikit-learn transformers that learn or draw a measurement matrix."""
