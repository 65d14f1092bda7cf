"""The embedded engine's subcommands of `crown`."""
