"""Experiments that are not converted to the new framework yet."""
