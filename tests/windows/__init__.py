"""Windows of relations: by number, by event time, with updates by key."""
