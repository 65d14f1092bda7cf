"""Sends change rows to the cells that read them: one table for all relations, shuffled by HyperCube coordinates."""
