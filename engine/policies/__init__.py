"""Policies: what decides the order in which providers are tried."""
