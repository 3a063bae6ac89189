"""What a walk waits for, on the thread that runs it."""

from queue import Empty, SimpleQueue
from typing import Any, Final, assert_never

from turnout.runtime.awaiting import awaited_here
from turnout.runtime.contract import Runtime
from turnout.runtime.lane import Claim, Token, enrol
from turnout.runtime.steps import Ask, Await, Hear, Sleep, TakeLane

#: The longest that one who ended a wait takes to say with what.
_ARRIVING_SECONDS: Final = 1.0


def performed_here(step: Ask | Await | Hear | TakeLane | Sleep, runtime: Runtime) -> Any:
    match step:
        case Ask():
            return step.actor.ask(step.message)
        case Await():
            return awaited_here(step, runtime)
        case Hear():
            return heard_here(step, runtime)
        case TakeLane():
            return lane_here(step, runtime)
        case Sleep():
            return _slept_here(step, runtime)
        case _:
            assert_never(step)


def heard_here(step: Hear, runtime: Runtime) -> Any:
    heard: SimpleQueue[Any] = SimpleQueue()
    step.begin(heard.put)
    try:
        return runtime.clock.wait(heard, step.limit.remaining())
    except Empty:
        return None


def _slept_here(step: Sleep, runtime: Runtime) -> None:
    woken: SimpleQueue[None] = SimpleQueue()
    step.limit.on_cut(lambda: woken.put(None))
    try:
        runtime.clock.wait(woken, step.limit.remaining())
    except Empty:
        return
    finally:
        step.limit.on_cut(None)


def lane_here(step: TakeLane, runtime: Runtime) -> Token | None:
    arrived: SimpleQueue[Token | None] = SimpleQueue()
    claim = Claim(arrived.put)
    step.limit.on_cut(lambda: give_up(claim))
    try:
        enrol(claim, step.lanes)
        while not step.limit.expired():
            # Its own alarm: after close() there is no other, and streams still start over then.
            rest = min(lane.rest_seconds for lane in step.lanes)
            try:
                token: Token | None = runtime.clock.wait(arrived, min(step.limit.remaining(), rest))
                return token
            except Empty:
                for lane in step.lanes:
                    lane.match()
        claim.settle(None)
        return _arrived(arrived)
    except BaseException:
        if not claim.settle(None) and (won := _arrived(arrived)) is not None:
            won.put_back()
        raise
    finally:
        step.limit.on_cut(None)


def _arrived(arrived: "SimpleQueue[Token | None]") -> Token | None:
    """What the wait ended with: whoever ended it may be about to say so. Where an interrupt lost it on the way, its
    lane makes up for it."""
    try:
        return arrived.get(timeout=_ARRIVING_SECONDS)
    except Empty:
        return None


def give_up(claim: Claim) -> None:
    claim.settle(None)
