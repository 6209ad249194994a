"""Trapless from Python."""
