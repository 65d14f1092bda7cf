"""Applies updates: the rules that change the views, heavy and light, batches of updates."""
