"""Plans for people: EXPLAIN as text, JSON, mermaid and pictures."""
