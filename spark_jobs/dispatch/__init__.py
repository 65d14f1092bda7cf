"""From change rows to the cells that want them: one table for all relations, shuffled by HyperCube coordinates."""
