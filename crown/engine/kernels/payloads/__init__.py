"""Payloads of groups: sums over a join that are formed inside its tree."""
