"""Other people's engines, each as it is meant to be used; skipped in one line where it is not installed."""
