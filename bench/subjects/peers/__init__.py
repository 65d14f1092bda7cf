"""Other projects' engines, each in its intended use; a missing one is skipped with a message of one line."""
