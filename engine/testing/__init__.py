"""What tests of turnout, and of code that uses it, are made of."""

from turnout.testing.clock import ManualClock
from turnout.testing.scripted import FINISHED, Prelude, ScriptedAdapters, ScriptedCall, ScriptedStream
from turnout.testing.stage import Stage
from turnout.testing.stage_loop import SILENCE, Pause

__all__ = [
    "FINISHED",
    "SILENCE",
    "ManualClock",
    "Pause",
    "Prelude",
    "ScriptedAdapters",
    "ScriptedCall",
    "ScriptedStream",
    "Stage",
]
