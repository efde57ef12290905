"""Ids in, hypotheses out."""
