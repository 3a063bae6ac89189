"""Batch jobs in the OpenAI batch file format."""
