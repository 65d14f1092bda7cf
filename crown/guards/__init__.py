"""What keeps an object from misuse: checked arguments, a batch that Ctrl-C cannot tear, state that is never copied."""
