"""Payloads of groups: sums over a join that are computed inside its tree."""
