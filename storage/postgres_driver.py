"""The PostgreSQL driver, imported at first use."""

from typing import Any

from turnout.errors import StorageDriverMissingError


def driver_of_postgres() -> Any:
    """``turnout.storage.postgres_connection``, which needs the driver; raises ``StorageDriverMissingError``."""
    try:
        from turnout.storage import postgres_connection
    except ImportError as error:
        raise StorageDriverMissingError(
            'the PostgreSQL driver is not installed; pip install "turnout[postgres]", or pass metrics_store=None'
        ) from error
    return postgres_connection
