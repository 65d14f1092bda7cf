"""The harness: cells are measured in processes of their own, and checked before their time counts."""
