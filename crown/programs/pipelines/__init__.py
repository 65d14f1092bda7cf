"""Programs whose batch is one native call: which they are, and the Python around the call."""
