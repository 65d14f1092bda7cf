"""The fault campaign: faults of every kind, until the time is up; then the sink must be the recompute."""
