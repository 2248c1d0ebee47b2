"""Theory's cases: what is expected of a queue, computed by simulated runs and judged.

`shipped()` gives the cases of the package and `read(path)` those of a file; `judge(cases)` tells of each what was
expected, what came out, and whether that is near enough.
"""

from qlab.cases.case import Case, CaseError
from qlab.cases.files import Cases, StatedOrders, StatedTrace, read, shipped
from qlab.cases.judging import Verdict, judge

__all__ = ["Case", "CaseError", "Cases", "StatedOrders", "StatedTrace", "Verdict", "judge", "read", "shipped"]
