"""Where a command's log goes."""

import pytest
from loguru import logger

from turnout.cli.log import log_to


def test_log_messages_go_where_the_command_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    shown: list[tuple[str, str]] = []
    with log_to(lambda level, text: shown.append((level, text))):
        logger.warning("{} is benched", "P")
        logger.info("too quiet to be shown")
    assert shown == [("WARNING", "P is benched")]
    assert capsys.readouterr().err == ""
    logger.warning("afterwards")
    assert "afterwards" in capsys.readouterr().err
    assert len(shown) == 1
