"""Other algorithms for the same task, over the same arena and hash tables, compiled the same way: what differs is the
algorithm.
"""
