"""Experiments: what is run, what is stored, and the plots and pages made from stored rows."""
