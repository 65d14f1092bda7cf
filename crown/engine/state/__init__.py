"""The lasting state of a tree engine: its arenas, and what is saved of them."""
