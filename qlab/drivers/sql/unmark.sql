DELETE FROM jobs_marks WHERE queue = :queue AND kind = :kind AND name = :name;
