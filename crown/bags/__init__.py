"""Bags: cyclic parts of a query, each kept up to date by a module of its own."""
