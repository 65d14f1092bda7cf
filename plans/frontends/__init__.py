"""Front-ends: SQL, Datalog and motifs become queries."""
