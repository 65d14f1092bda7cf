"""Functions of arrays, maps, structs and JSON."""
