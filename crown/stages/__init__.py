"""The stages of a program besides the join core: groups, set operations, sums; the gate; the program's engine."""
