"""Parts for testing what is built on turnout."""
