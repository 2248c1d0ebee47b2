SELECT name FROM sqlite_schema WHERE name = 'jobs_marks';

SELECT kind, name, value FROM jobs_marks WHERE queue = :queue ORDER BY kind, name;
