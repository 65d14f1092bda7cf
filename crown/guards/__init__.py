"""Protection from misuse: checked arguments, batches that Ctrl-C cannot interrupt, objects that cannot be copied."""
