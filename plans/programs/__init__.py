"""What is known of programs: reads and wires, named results, and the parts of stages over rows in order."""
