"""Sources as people have them: several relations in one topic, Delta tables, a stream that takes over from a load."""
