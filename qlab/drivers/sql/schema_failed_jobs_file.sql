CREATE TABLE failed_jobs_file (
    name TEXT NOT NULL                   -- of this file, which no other has: notes about its rows begin with it
) STRICT;

INSERT INTO failed_jobs_file VALUES (lower(hex(randomblob(8))));
