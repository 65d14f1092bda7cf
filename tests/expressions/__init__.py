"""Tests of expressions in native form."""
