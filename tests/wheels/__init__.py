"""The wheel and the source archive, tried as a new user would: in empty environments, away from the sources."""
