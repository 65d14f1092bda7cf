"""Compiled kernels: from which sources they are made, and where they are kept."""
