"""Stores: where the ledger's rows are kept."""
