"""Threads, queues and time: mechanics that know nothing of what they carry."""
