"""Every order in which the workers of a small scenario can take their steps, and the first that breaks a promise.

`explore(scenario, driver=…)` takes them on a real driver, and `hunt(driver)` looks for what a driver breaks at all. An
order of steps is a path (`interleaving`); what may happen in it is stated by a `situation`, what must hold in it by
`invariants`, and what happened is told by `narration`. `SITUATIONS` are those that have a name, the smallest first.
"""

from qlab.explorer.exploring import Broken, Explored, explore, hunt
from qlab.explorer.situation import SITUATIONS, Situation, small
from qlab.explorer.walks import TooLarge

__all__ = ["SITUATIONS", "Broken", "Explored", "Situation", "TooLarge", "explore", "hunt", "small"]
