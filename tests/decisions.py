"""The sentences of two decisions, ADR 0019 and ADR-006, in short, and what holds each: tests, or why there are none.

A test is named `module::test`, without the `test_` of its file; a promise of `qlab.contract` `promise::its sentence`.
"""

from typing import NamedTuple


class Sentence(NamedTuple):
    """A sentence of a decision.

    Attributes:
        says: What it says, in short.
        tests: The tests that hold it.
        elsewhere: Why nothing here can or need hold it.
    """

    says: str
    tests: tuple[str, ...] = ()
    elsewhere: str = ""


def held(says: str, *tests: str) -> Sentence:
    return Sentence(says, tests)


def elsewhere(says: str, why: str) -> Sentence:
    return Sentence(says, elsewhere=why)


RUST = "it is about Rust's features and crates; here the Redis client is imported only where a Redis driver is opened"
HTTP = "there is no web server here: the application's is beside the workers"

ADR_0019_DECISION = (
    elsewhere("an optional `queue` feature with `rustclamp::queue`", RUST),
    held("it adds no new dependency", "import::test_what_needs_no_heavy_package_brings_none"),
    elsewhere("the Redis driver also needs the `redis` feature", RUST),
    held(
        "named handlers are one more field of the app",
        "system_rustclamp::test_handlers_are_named_on_the_app",
    ),
    held(
        "the job carries the payload, the attempt number and the app's database",
        "system_rustclamp::test_the_job_carries_the_payload_the_attempt_number_and_the_app_s_database",
        "system_rustclamp::test_a_handler_s_transaction_that_fails_leaves_nothing_in_the_app_s_database",
    ),
    held("the app chooses the payload's format: here it is JSON", "payload::test_a_value_is_encoded_as_compact_json"),
    held("a panic counts as a failure", "system_rustclamp::test_a_panic_counts_as_a_failure"),
    held(
        "`dispatch` and `dispatch_later` store the job",
        "system_rustclamp::test_setting_the_app_up_starts_no_worker_and_a_test_runs_the_next_due_job_with_a_given_clock",
        "system_rustclamp::test_a_job_and_the_row_that_it_is_about_commit_together_where_both_are_in_the_database",
    ),
    held(
        "when the driver cannot be reached, the caller decides what to do",
        "system_rustclamp::test_when_the_driver_can_t_be_reached_the_caller_decides_what_to_do",
        "misbehaving_server::test_whatever_a_server_answers_the_caller_is_told_and_no_job_is_lost",
    ),
    held(
        "a name without a handler is an error at dispatch time",
        "system_rustclamp::test_dispatching_a_name_that_has_no_handler_is_an_error_at_dispatch_time",
    ),
    held(
        "a worker reserves a job before running it; a reservation that is too old makes it available again",
        "system_rustclamp::test_a_reservation_older_than_queue_retry_after_makes_the_job_available_again",
        "promise::a job in hand is given to nobody until it runs out",
    ),
    held("a job survives a crash or a kill", "kills::test_a_worker_that_is_killed_leaves_its_job_in_one_place"),
    held(
        "a job can run twice, and a slow handler alongside its own retry",
        "system_rustclamp::test_a_handler_that_runs_longer_than_queue_retry_after_can_run_alongside_its_own_retry",
    ),
    held(
        "handlers must be idempotent: those that come along are",
        "library::test_a_scan_that_runs_twice_changes_nothing_but_the_time_it_takes",
        "system_vellum::test_a_second_scan_dispatches_only_what_is_new",
    ),
    held(
        "the docs say to set the value above the slowest job: so does the setting, and `qlab doctor`",
        "system_rustclamp::test_a_setting_that_cannot_be_is_named_with_the_way_out_before_anything_opens",
        "doctor::test_runs_that_reach_their_reservation_are_warned_of",
    ),
    held(
        "a failed attempt is retried after 10, 60 and 300 s, up to `QUEUE_TRIES` (3) in total",
        "system_rustclamp::test_a_failed_attempt_is_retried_after_10_60_and_300_seconds_up_to_queue_tries",
        "system_rustclamp::test_the_defaults_are_those_of_the_decision",
    ),
    held(
        "then it moves to `failed_jobs` (name, payload, error, failed_at), and an error is logged",
        "system_rustclamp::test_after_the_last_attempt_the_job_moves_to_failed_jobs_in_the_app_s_database_and_an_error_is_logged",
    ),
    held(
        "an attempt counts when the job is reserved, so one whose worker dies every time ends there",
        "system_rustclamp::test_a_job_whose_worker_dies_every_time_ends_in_failed_jobs_instead_of_looping",
    ),
    held(
        "`failed_jobs` lives in the database for both drivers, so failures survive a Redis flush",
        "system_rustclamp::test_failures_survive_a_redis_flush",
    ),
    held(
        "`queue:retry ID|all` moves failed jobs back onto the active driver with their attempts reset",
        "system_rustclamp::test_retry_moves_failed_jobs_back_onto_the_active_driver_with_their_attempts_reset",
        "cli::test_a_retry_tells_the_new_ids",
    ),
    held(
        "`queue:forget ID|all` deletes them",
        "system_rustclamp::test_forget_deletes_failed_jobs",
        "cli::test_forget_before_a_moment",
    ),
    held(
        "`QUEUE_CONNECTION` chooses one of two drivers, `database` by default",
        "system_rustclamp::test_two_drivers_are_chosen_by_queue_connection_and_database_is_the_default",
    ),
    held(
        "database: a `jobs` table of the framework's, made with its migrations",
        "system_rustclamp::test_the_jobs_table_is_made_in_the_app_s_database_beside_its_own_tables",
    ),
    held(
        "database: a claim is one `UPDATE … RETURNING` on the oldest available row",
        "sqlite_only::test_a_claim_is_one_statement",
        "promise::the job that has been claimable longest goes first",
    ),
    held(
        "database: concurrent workers never take the same job",
        "work::test_four_processes_share_the_jobs_and_each_runs_once",
        "worker::test_several_workers_share_a_queue_and_no_job_runs_twice",
    ),
    held(
        "database: workers poll once a second while the table is empty; here each wait is varied, as pollers bunch",
        "worker::test_a_worker_waits_about_its_poll_and_no_two_waits_are_alike",
        "system_rustclamp::test_a_worker_asks_again_about_once_a_second_where_nothing_is_due",
    ),
    elsewhere("redis: built on the existing `rustclamp::redis::Redis`", "here it is built on redis-py"),
    held(
        "redis: a list, a sorted set of delayed jobs, a sorted set of reserved ones",
        "redis_only::test_a_queue_whose_jobs_are_done_leaves_nothing_but_its_counters",
        "system_rustclamp::test_two_drivers_are_chosen_by_queue_connection_and_database_is_the_default",
    ),
    held(
        "redis: one script moves what is due and what has run out to the list, pops and reserves: it is atomic",
        "contract::test_a_list_appends_at_most_100_jobs_a_call",
        "redis_only::test_statements_show_the_file_of_the_verb",
        "misbehaving_server::test_a_real_server_that_refuses_a_write_leaves_each_verb_whole",
    ),
    held("redis: each worker opens its own connection", "team::test_each_worker_has_a_connection_of_its_own"),
    held(
        "redis: workers poll rather than block",
        "system_rustclamp::test_a_worker_asks_again_about_once_a_second_where_nothing_is_due",
    ),
    held(
        "redis: keys start with `REDIS_PREFIX`",
        "system_rustclamp::test_keys_start_with_redis_prefix_and_two_apps_on_one_server_do_not_run_each_other_s_jobs",
        "redis_rights::test_a_user_reaches_no_prefix_but_its_own",
    ),
    held(
        "in production the app refuses to start the queue without a prefix",
        "system_rustclamp::test_in_production_the_redis_queue_is_refused_without_a_prefix",
        "redis_only::test_production_demands_a_prefix",
    ),
    held(
        "outside production `QUEUE_WORKERS` threads (1) run beside the app",
        "system_rustclamp::test_outside_production_one_worker_runs_beside_the_app_and_queue_workers_says_how_many",
    ),
    elsewhere("they run beside the HTTP server, like the mail thread", HTTP),
    held(
        "in production `QUEUE_WORKERS` defaults to 0, and `queue:work` runs only the workers",
        "system_rustclamp::test_in_production_queue_workers_defaults_to_0_and_work_works_all_the_same",
    ),
    held(
        "the same program, started as a command, is its own service: here `qlab work MODULE:QUEUE`",
        "work::test_four_processes_share_the_jobs_and_each_runs_once",
    ),
    elsewhere("a slow job never takes HTTP threads, and the two restart separately", HTTP),
    held(
        "a worker that is stopped takes no new job and finishes the one it runs",
        "system_rustclamp::test_once_stopped_a_worker_takes_no_new_job_and_finishes_the_one_it_is_running",
    ),
    elsewhere(
        "std has no signal hook, so SIGTERM cannot stop the workers",
        "Python has one: `qlab work` stops in good order, see work::test_the_first_signal_finishes_the_job_in_hand_…",
    ),
    held(
        "a kill cuts the job off, and it is retried after `QUEUE_RETRY_AFTER`",
        "scenarios_workers::test_what_a_dead_worker_held_comes_again_when_it_runs_out_and_no_sooner",
    ),
    held(
        "a test starts no worker, and runs the next due job with a given clock",
        "system_rustclamp::test_setting_the_app_up_starts_no_worker_and_a_test_runs_the_next_due_job_with_a_given_clock",
    ),
    elsewhere(
        "not included: named queues, priorities, unique jobs, chains, batches, limits per job, `sync`, a dashboard",
        "`rustclamp` has one queue and none of these; the lab's board and named queues are the lab's",
    ),
    held(
        "mail stays off the queue: the outbox keeps its daily cap",
        "system_outbox::test_one_mail_leaves_a_minute",
        "system_outbox::test_so_many_mails_leave_in_a_day_and_the_next_waits_for_midnight",
        "system_outbox::test_pace_and_cap_are_kept_across_a_restart",
    ),
)

ADR_0019_CONSEQUENCES = (
    held(
        "there are two queues: this one, and the worker crate's for async services",
        "system_in_process::test_a_service_over_sqlite_goes_on_after_a_restart_where_it_was",
        "service::test_so_many_jobs_are_in_hand_at_once_and_no_more",
    ),
    held(
        "a job written for one does not run on the other",
        "service::test_an_async_handler_of_a_stepped_queue_is_refused_with_the_way_out",
        "service::test_a_service_s_handler_that_is_stepped_by_hand_fails_its_attempt_and_says_who_runs_it",
    ),
    elsewhere("they share no code", "here both go through the same steps, so that there is one engine to trust"),
    elsewhere("`tools/boundaries.py` needs no change", "it is that repository's tool"),
    held(
        "without a second service jobs pile up, and nothing runs them",
        "system_rustclamp::test_in_production_queue_workers_defaults_to_0_and_work_works_all_the_same",
    ),
    held(
        "`clamp doctor`, or a warning at the start when `QUEUE_WORKERS=0` and jobs wait, can surface that: both do",
        "system_rustclamp::test_the_warning_is_given_only_where_nothing_works_and_jobs_wait",
        "doctor::test_each_broken_set_up_has_its_own_finding_with_a_way_out",
    ),
    held(
        "the Redis driver is tested against a fake server that misbehaves",
        "misbehaving_server::test_whatever_a_server_answers_the_caller_is_told_and_no_job_is_lost",
    ),
    held(
        "and against a live Redis 8: each test of the contract is",
        "promise::complete deletes a job once",
    ),
)

ADR_006_DECISION = (
    held(
        "the queue is a table in the same SQLite database",
        "system_vellum::test_the_queue_is_a_table_in_the_same_sqlite_database",
        "system_vellum::test_the_queue_survives_a_restart",
    ),
    held("no Redis, no broker", "import::test_what_needs_no_heavy_package_brings_none"),
    held("no second process", "system_vellum::test_there_is_no_second_process"),
)

ADR_006_ALTERNATIVES = (
    elsewhere("a broker is a second service, outside the backup", "`rustclamp` over Redis is that, to compare"),
    held("in memory a restart loses queued work", "system_in_process::test_a_restart_loses_queued_work"),
    held("silently", "system_in_process::test_a_restart_is_silent"),
    held("there is no way to see what waits", "system_in_process::test_there_is_no_way_to_see_what_waits"),
    held(
        "and no way to retry a failure after a crash",
        "system_in_process::test_there_is_no_way_to_retry_a_failure_after_a_crash",
    ),
)

ADR_006_CONSEQUENCES = (
    held(
        "claiming a job is a single atomic statement, as printed",
        "system_vellum::test_claiming_a_job_is_a_single_atomic_statement_and_it_is_the_one_that_is_printed",
        "system_vellum::test_the_oldest_by_run_after_and_id_goes_first",
    ),
    held(
        "several workers are safe with no extra locking",
        "system_vellum::test_several_workers_are_safe_with_no_extra_locking",
    ),
    held(
        "four workers with jittered idle waits",
        "system_vellum::test_there_are_four_workers_with_jittered_idle_waits",
    ),
    held(
        "a panicking handler is recovered and the job marked failed; it kills no worker and strands no row",
        "system_vellum::test_a_panicking_handler_is_recovered_and_the_job_marked_failed",
        "system_vellum::test_one_bad_handler_strands_no_row_in_running",
        "system_vellum::test_an_exception_is_tried_again_and_a_panic_is_not",
    ),
    held(
        "`RecoverStale()` runs at boot and requeues what a dead process left behind",
        "system_vellum::test_what_a_dead_process_left_behind_is_requeued_at_boot",
        "system_vellum::test_a_process_that_is_killed_in_the_middle_of_a_scan_loses_nothing",
    ),
    held(
        "without it a crash left a job running for ever",
        "system_vellum::test_without_recovery_a_crash_leaves_a_job_running_for_ever",
    ),
    elsewhere("while the UI polled it for ever", HTTP),
    held(
        "the queue is in the same backup as everything else",
        "system_vellum::test_the_queue_is_included_in_the_same_backup_as_everything_else",
        "system_vellum::test_a_backup_overwrites_nothing_and_leaves_no_half_file",
    ),
    held(
        "job state is queryable, which is how scan progress reaches the UI",
        "system_vellum::test_job_state_is_queryable_which_is_how_scan_progress_reaches_the_ui",
        "system_vellum::test_the_status_of_a_scan_that_failed_says_why",
    ),
    elsewhere("by `GET /libraries/{id}/scan/status`", f"{HTTP}; `status(library)` is what it would answer"),
    held("two job kinds: `scan_library` and `enrich_item`", "system_vellum::test_there_are_two_job_kinds"),
    held(
        "the queue shares the single writer, so a very large scan slows enqueueing: how long is waited is told",
        "sqlite_only::test_the_lock_is_waited_for_and_the_wait_is_told",
    ),
    held(
        "chunked transactions keep each write short",
        "system_vellum::test_chunked_transactions_keep_each_write_short",
    ),
)

NOT_PROMISED = (
    held("no fence", "system_vellum::test_weaker_a_late_worker_settles_the_run_of_another"),
    held(
        "no expiry",
        "system_vellum::test_weaker_no_reservation_runs_out_and_one_that_should_is_refused",
        "system_vellum::test_weaker_a_boot_takes_the_jobs_of_live_workers_too",
    ),
    held("one queue", "system_vellum::test_weaker_a_table_is_one_queue_by_whatever_name"),
    held(
        "no identity",
        "system_vellum::test_weaker_a_push_that_is_repeated_makes_a_second_job",
        "system_vellum::test_weaker_a_retried_job_keeps_its_row_and_its_id",
    ),
    held("ties go by id", "system_vellum::test_weaker_a_job_that_is_given_back_goes_before_its_younger_peers"),
    held("nothing is deleted", "system_vellum::test_weaker_rows_of_jobs_that_are_done_stay"),
    held("when a job was claimed is not kept", "system_vellum::test_weaker_when_a_job_was_claimed_is_not_kept"),
)

DECISIONS = {
    "ADR 0019, decision": ADR_0019_DECISION,
    "ADR 0019, consequences": ADR_0019_CONSEQUENCES,
    "ADR-006, decision": ADR_006_DECISION,
    "ADR-006, alternatives": ADR_006_ALTERNATIVES,
    "ADR-006, consequences": ADR_006_CONSEQUENCES,
    "ADR-006, what its table does not promise": NOT_PROMISED,
}
