"""How far a simulated mean may be from the truth, and how many jobs make it a precise one."""

import math

from qlab.theory.checks import positive, share, stable


def wait_variance(utilisation: float, service: float = 1.0) -> float:
    """Tell n times the variance of the mean wait of n jobs in a row, for M/M/1 and many jobs; in seconds².

    rho (2 + 5 rho - 4 rho² + rho³)/(1 - rho)⁴ services²: waits of neighbours are alike, so it is far more than the
    variance of one wait (Daley, "The serial correlation coefficients of waiting times", 1968; Whitt, 1989).

    Args:
        utilisation: Above 0, below 1.
        service: The mean service time, in seconds.

    Raises:
        ValueError: A number is out of its range.

    Example:
        >>> from qlab import theory
        >>> theory.wait_variance(0.5), round(theory.wait_variance(0.9))
        (29.0, 35901)
    """
    rho = positive(utilisation, "utilisation")
    stable(rho, 1)
    factor: float = rho * (2 + 5 * rho - 4 * rho**2 + rho**3) / (1 - rho) ** 4
    return factor * positive(service, "service") ** 2


def wait_error(utilisation: float, jobs: int, service: float = 1.0) -> float:
    """Tell the standard deviation of the mean wait of so many jobs in a row, for M/M/1, in seconds.

    Args:
        utilisation: Above 0, below 1.
        jobs: How many.
        service: The mean service time, in seconds.

    Raises:
        ValueError: A number is out of its range.

    Example:
        >>> from qlab import theory
        >>> round(theory.wait_error(0.9, jobs=10_000), 2), round(theory.MMc(0.9, 1.0).wait, 2)
        (1.89, 9.0)
    """
    return math.sqrt(wait_variance(utilisation, service) / positive(jobs, "jobs"))


def jobs_for(precision: float, utilisation: float) -> int:
    """Tell how many jobs make one standard deviation of the mean wait such a share of it, for M/M/1.

    Args:
        precision: Such as 0.01 for 1 %.
        utilisation: Above 0, below 1.

    Raises:
        ValueError: A number is out of its range.

    Example:
        >>> from qlab import theory
        >>> round(theory.jobs_for(0.05, utilisation=0.5), -2), round(theory.jobs_for(0.05, utilisation=0.9), -2)
        (11600, 177300)
    """
    mean = positive(utilisation, "utilisation") / (1 - utilisation) if utilisation < 1 else math.inf
    return math.ceil(wait_variance(utilisation) / (positive(precision, "precision") * mean) ** 2)


def jobs_for_share(precision: float, p: float) -> int:
    """Tell how many independent jobs make one standard deviation of a counted share such a part of it.

    Args:
        precision: Such as 0.01 for 1 %.
        p: The share, above 0 and up to 1.

    Raises:
        ValueError: A number is out of its range.

    Example:
        >>> from qlab import theory
        >>> theory.jobs_for_share(0.01, p=0.5)
        10000
    """
    return math.ceil((1 - share(p, "p")) / (positive(p, "p") * positive(precision, "precision") ** 2))
