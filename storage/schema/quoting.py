"""Names that a database gives, put into SQL."""


def quoted(name: str) -> str:
    """``name`` as an identifier, whatever it is made of."""
    return '"' + name.replace('"', '""') + '"'
