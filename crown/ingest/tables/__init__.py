"""Tables as users have them: of any library, with columns of any types, as checked columns of Arrow."""
