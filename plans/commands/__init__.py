"""The planner's subcommands of `crown`."""
