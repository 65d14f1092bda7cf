"""Protection from misuse: checked arguments, batches that Ctrl-C cannot tear, objects that cannot be copied."""
