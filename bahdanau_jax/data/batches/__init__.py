"""Encoded pairs to padded batches: the plan of an epoch and its shapes."""
