"""The kernel of a program whose batch is one native call."""
