CREATE TABLE failures_written (
    token TEXT PRIMARY KEY               -- of a failure whose row was written, and which its store still holds
) STRICT;
