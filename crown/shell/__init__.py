"""The shell of ``crown sql``: statements over the database in a folder."""
