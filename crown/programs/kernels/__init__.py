"""The kernel of a native call, which applies a whole batch of a program. Start with ``pipeline``."""
