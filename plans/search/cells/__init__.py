"""The cells of a plan: how its rows are distributed, so that cells do not communicate."""
