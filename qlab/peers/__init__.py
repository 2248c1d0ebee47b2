"""The same work in other hands: what qlab is measured against, by `qlab bench` and `qlab contention --peers`."""
