"""The state of a program: its memory and its snapshots."""
