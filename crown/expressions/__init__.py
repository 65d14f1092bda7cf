"""Expressions in native form: a program of a few instructions that one kernel runs over columns of codes."""
