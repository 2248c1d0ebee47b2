SELECT name FROM failed_jobs_file;
