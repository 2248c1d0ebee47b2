PRAGMA quick_check;

SELECT id FROM jobs WHERE queue = :queue AND (reserved_at IS NULL) <> (token IS NULL);
