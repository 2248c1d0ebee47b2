CREATE TABLE jobs_seq (
    seq INTEGER NOT NULL                 -- the last serial number given
) STRICT;

INSERT INTO jobs_seq VALUES (0);
