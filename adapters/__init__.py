"""Adapters: the code that makes one native call through one SDK and says which fault an exception is."""
