"""Pipeline projects in one process: their specification, SQL files and file sources, without Spark."""
