"""Workers that ask at intervals: how late they find a job, and how much they ask."""

from qlab.theory.checks import inside, not_negative, positive, share, whole


def idle_wait(interval: float, workers: int = 1) -> float:
    """Tell how many seconds a job waits on average for idle workers that ask independently of each other: T/(w + 1).

    The least of w uniform numbers (David and Nagaraja, Order Statistics, 2003). It holds only while the phases are
    independent: without jitter workers bunch, and it becomes T/2 whatever their number.

    Args:
        interval: In seconds.
        workers: How many there are.

    Raises:
        ValueError: A number is out of its range.

    Example:
        >>> from qlab import theory
        >>> theory.idle_wait(interval=3.0), theory.idle_wait(interval=3.0, workers=5)
        (1.5, 0.5)
    """
    return positive(interval, "interval") / (whole(workers, "workers") + 1)


def idle_wait_quantile(q: float, interval: float, workers: int = 1) -> float:
    """Tell within how many seconds a share q of the jobs is found: T (1 - (1 - q)^(1/w)).

    Of the least of w uniform numbers, as `idle_wait` is their mean.

    Args:
        q: Between 0 and 1.
        interval: T, in seconds.
        workers: How many there are, which ask independently of each other.

    Raises:
        ValueError: A number is out of its range.

    Example:
        >>> from qlab import theory
        >>> round(theory.idle_wait_quantile(0.95, interval=3.0, workers=5), 2)
        1.35
    """
    left: float = (1 - inside(q, "q")) ** (1 / whole(workers, "workers"))
    return positive(interval, "interval") * (1 - left)


def idle_wait_in_phase(interval: float) -> float:
    """Tell the mean wait in seconds where all workers ask at the same moments, however many they are: T/2.

    Args:
        interval: T, in seconds.

    Raises:
        ValueError: A number is out of its range.

    Example:
        >>> from qlab import theory
        >>> theory.idle_wait_in_phase(interval=3.0)
        1.5
    """
    return positive(interval, "interval") / 2


def idle_wait_jittered(interval: float, workers: int, jitter: float) -> float:
    """Tell the mean wait in seconds where each interval is uniform in T (1 ± jitter), workers being independent.

    The integral of G^w, where G is the tail of what is left of an interval at a random moment (Cox, Renewal Theory,
    1962). With one worker it is longer than T/2, for long intervals are met more often: the inspection paradox.

    Args:
        interval: The mean T, in seconds.
        workers: How many there are.
        jitter: By which fraction an interval varies, up or down, up to 1.

    Raises:
        ValueError: A number is out of its range.

    Example:
        >>> from qlab import theory
        >>> round(theory.idle_wait_jittered(interval=3.0, workers=1, jitter=0.5), 3)
        1.625
        >>> round(theory.idle_wait_jittered(interval=3.0, workers=5, jitter=0.5), 3)
        0.501
    """
    mean, count = positive(interval, "interval"), whole(workers, "workers")
    spread = share(jitter, "jitter")
    certain = mean / (count + 1) * (1 - spread ** (count + 1))
    beyond: float = mean * 2 * spread * spread**count / (2 * count + 1)
    return certain + beyond


def wait_with_polls(wait: float, interval: float, jitter: float = 0.0) -> float:
    """Tell the mean wait in seconds of one worker that sleeps whenever it finds nothing: E[V²]/(2 E[V]) more.

    A queue with multiple vacations: the wait is that without them and what is left of a vacation, at every load
    (Cooper, 1970; Fuhrmann and Cooper, 1985; Doshi, 1986; Takagi, 1991).

    Args:
        wait: The mean wait without polls, such as `MG1(...).wait`.
        interval: How long the worker sleeps, in seconds.
        jitter: By which fraction that varies uniformly, up or down, up to 1.

    Raises:
        ValueError: A number is out of its range.

    Example:
        >>> from qlab import theory
        >>> theory.wait_with_polls(theory.MMc(0.5, 1.0).wait, interval=3.0)
        2.5
    """
    mean = positive(interval, "interval")
    return not_negative(wait, "wait") + mean * (1 + share(jitter, "jitter") ** 2 / 3) / 2


def polls_a_second(interval: float, workers: int = 1) -> float:
    """Tell how often a store is asked in a second while there is nothing to do: w/T.

    Args:
        interval: T, in seconds.
        workers: How many there are.

    Raises:
        ValueError: A number is out of its range.

    Example:
        >>> from qlab import theory
        >>> theory.polls_a_second(interval=3.0, workers=60)
        20.0
    """
    return whole(workers, "workers") / positive(interval, "interval")
