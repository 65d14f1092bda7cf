"""Builds and runs the native call that applies a batch of a program."""
