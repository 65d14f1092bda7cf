"""Front-ends: translate SQL, Datalog and motifs into the query algebra."""
