"""How many of the pool's workers one provider may have."""


def default_share(max_workers: int, providers: int) -> int | None:
    """Half of the workers, and at least one, so that a provider that hangs leaves the others theirs. None, for no
    bound, where there is no other provider to leave them to."""
    return None if providers < 2 else max(max_workers // 2, 1)
