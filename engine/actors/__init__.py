"""The owners of state: thin shells around decisions."""
