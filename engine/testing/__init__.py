"""What tests of turnout, and of code that uses it, are made of."""

from turnout.testing.clock import ManualClock
from turnout.testing.scripted import FINISHED, ScriptedAdapters, ScriptedCall, ScriptedStream

__all__ = ["FINISHED", "ManualClock", "ScriptedAdapters", "ScriptedCall", "ScriptedStream"]
