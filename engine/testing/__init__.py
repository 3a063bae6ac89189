"""What tests of turnout, and of code that uses it, are made of."""

from turnout.testing.clock import ManualClock

__all__ = ["ManualClock"]
