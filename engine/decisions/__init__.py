"""Pure decisions: no threads, no I/O, no clock of their own."""
