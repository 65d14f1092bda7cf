"""The lasting state of a program of stages: its memory, and what is saved of it."""
