"""Other algorithms for the same task, over the same arena and hash tables, compiled the same way: only the algorithm
differs.
"""
