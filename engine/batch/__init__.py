"""Batch jobs in the OpenAI batch file format."""

from turnout.batch.job import run_batch
from turnout.batch.lines import BadLine, BatchRequest, read_lines
from turnout.batch.outcomes import Ending
from turnout.batch.output import OutputFile
from turnout.batch.writing import BatchCounts, LineEnd

__all__ = [
    "BadLine",
    "BatchCounts",
    "BatchRequest",
    "Ending",
    "LineEnd",
    "OutputFile",
    "read_lines",
    "run_batch",
]
