"""The commands, one file each, or one for those that do the like: parse, call, print."""
