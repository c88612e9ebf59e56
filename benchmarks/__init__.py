"""Benchmarks of speed and memory. Each is a module with a function that returns a JSON object.

A module is imported only when its benchmark runs, so that no other imports change its measurements.
"""
