"""Subcommands of ``crown`` that use Spark."""
