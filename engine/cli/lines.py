"""Lines for people."""

from typing import IO


def write_line(file: IO[str], text: str) -> None:
    """Write a line in one piece: print() writes its end apart, and another thread's line comes in between."""
    file.write(f"{text}\n")
    file.flush()


def in_one_line(text: str) -> str:
    """Several lines as clauses of one."""
    first, *others = [" ".join(line.split()) for line in text.splitlines() if line.strip()] or [""]
    for clause in others:
        first += f" {clause}" if first.endswith(":") else f"; {clause}"
    return first
