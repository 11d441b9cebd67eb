"""Which tests are asked about a mutant of a file: those nearest to it, quick tests first.

The first pattern that a file's path fits counts. Paths of tests begin below `tests`.
"""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

TESTS = Path(__file__).parents[1]
ADAPTER = "*sparksession_adapter/*"
QUERIES = " ".join(
    f"adapter/test_{name}_queries.py" for name in ("random", "news", "chosen", "fold", "partition")
)
NEAREST: tuple[tuple[str, str], ...] = (
    # macros
    ("macros/*chain/*", "adapter/test_chain_breaks.py e2e/test_chain.py e2e/test_sample.py"),
    (
        "macros/changelog/extract_changes.sql",
        "adapter/test_extracts.py adapter/test_extract_refusals.py",
    ),
    ("macros/changelog/*", "adapter/test_macro_sql.py e2e/test_sample.py e2e/test_accounting.py"),
    ("macros/cleaning/*", "adapter/test_cleaning.py e2e/test_sample.py"),
    ("macros/business/counts/*", "e2e/test_sample.py e2e/test_levels.py"),
    ("macros/business/customer/*", "adapter/test_dimensions.py e2e/test_random_histories.py"),
    ("macros/daily_cut/*", "adapter/test_closed_periods.py e2e/test_levels.py e2e/test_sample.py"),
    ("macros/deduplication/*", "adapter/test_key_filters.py"),
    ("macros/business/details/*", "e2e/test_sample.py"),
    (
        "macros/joins/asof_join.sql",
        "adapter/test_asof.py adapter/test_join_details.py adapter/test_joins.py",
    ),
    ("macros/joins/*", "adapter/test_join_details.py adapter/test_joins.py"),
    ("macros/metrics/*", "adapter/test_metrics.py e2e/test_traffic.py"),
    (
        "macros/quality/*refusals.sql",
        "adapter/test_refusal_reports.py project/test_run.py e2e/test_bad_input.py "
        "e2e/test_formats_of_topics.py",
    ),
    ("macros/quality/messages_once.sql", "adapter/test_messages_once.py"),
    ("macros/quality/followed_versions.sql", "adapter/test_zipper_tests.py"),
    (
        "macros/quality/report_run.sql",
        "adapter/test_refusal_reports.py e2e/test_bad_input.py e2e/test_formats_of_topics.py "
        "e2e/test_schema_change.py",
    ),
    (
        "macros/quality/undeclared_columns.sql",
        "adapter/test_quality_macros.py e2e/test_schema_change.py",
    ),
    ("macros/quality/is_behind_source.sql", "live/test_source_reconciliation.py"),
    (
        "macros/quality/source_is_reached.sql",
        "adapter/test_quality_macros.py live/test_source_reconciliation.py",
    ),
    (
        "macros/quality/*block*.sql",
        "adapter/test_quality_macros.py e2e/test_message_blocks.py",
    ),
    ("macros/quality/message_outcomes.sql", "e2e/test_message_blocks.py"),
    ("macros/quality/near_open_changes.sql", "e2e/test_message_blocks.py"),
    ("macros/quality/*", "project/test_run.py e2e/test_accounting.py e2e/test_bad_input.py"),
    ("macros/streams/beliefs.sql", "adapter/test_beliefs.py adapter/test_belief_versions.py"),
    ("macros/streams/as_known_at.sql", "adapter/test_beliefs.py"),
    ("macros/streams/*", "adapter/test_streams.py"),
    ("macros/windows/*", "adapter/test_windows.py"),
    ("*replace_windows*", "adapter/test_windows.py"),
    ("*/strategies/*", "adapter/test_incremental.py adapter/test_rewriting_strategies.py"),
    ("*/operations/*", "adapter/test_maintenance.py reliability/test_places.py"),
    ("*/macros/reading/*", "adapter/test_pinned_inputs.py adapter/test_default_reads.py"),
    ("*/macros/versions/*", "adapter/test_versions.py adapter/test_flags.py"),
    # the adapter
    (
        "*/materializations/folded.sql",
        "adapter/test_folded_models.py adapter/test_zipper_models.py",
    ),
    (
        "*/materializations/incremental.sql",
        "adapter/test_incremental.py adapter/test_microbatch.py",
    ),
    ("*/materializations/snapshot.sql", "adapter/test_snapshots.py"),
    ("*sparksession_adapter/*.sql", "adapter/test_features.py adapter/test_tables.py"),
    (ADAPTER + "/business_time.py", "adapter/test_units.py"),
    (ADAPTER + "/changes.py", "adapter/test_changes.py adapter/test_streams.py"),
    (ADAPTER + "/copies.py", "reliability/test_places.py"),
    (ADAPTER + "/recovery.py", "reliability/test_places.py"),
    (ADAPTER + "/place.py", "reliability/test_places.py reliability/test_one_writer.py"),
    (
        ADAPTER + "/default_reads.py",
        "adapter/test_default_reads.py adapter/test_random_models.py "
        "adapter/test_news_in_branches.py",
    ),
    (ADAPTER + "/reading/named_values.py", "adapter/test_named_values.py"),
    (ADAPTER + "/reading/given_queries.py", "adapter/test_given_queries.py"),
    (ADAPTER + "/reading/clock_queries.py", "adapter/test_clock_queries.py"),
    (ADAPTER + "/reading/*_queries.py", QUERIES),
    (ADAPTER + "/reading/query_parts.py", QUERIES),
    (ADAPTER + "/reading/own_conditions.py", "adapter/test_own_conditions.py"),
    (ADAPTER + "/reading/spark_words.py", "adapter/test_news_queries.py"),
    (ADAPTER + "/reading/held_columns.py", QUERIES),
    (ADAPTER + "/reading/own_choices.py", QUERIES),
    (ADAPTER + "/reading/ranks.py", QUERIES),
    (ADAPTER + "/reading/aggregates.py", QUERIES),
    (ADAPTER + "/view_marks.py", "adapter/test_default_reads.py adapter/test_version_queries.py"),
    (ADAPTER + "/definitions.py", "adapter/test_definitions.py"),
    (ADAPTER + "/flags.py", "adapter/test_flags.py adapter/test_commands.py"),
    (ADAPTER + "/keyed/tables.py", "adapter/test_folded_models.py adapter/test_folded_layout.py"),
    (ADAPTER + "/keyed/keys.py", "adapter/test_units.py adapter/test_maintenance.py"),
    (ADAPTER + "/zippers.py", "adapter/test_zippers.py adapter/test_zipper_models.py"),
    (
        ADAPTER + "/keyed/*.py",
        "adapter/test_folds.py adapter/test_fold_configs.py adapter/test_folded_models.py "
        "adapter/test_folded_layout.py",
    ),
    (
        ADAPTER + "/beliefs.py",
        "adapter/test_belief_declarations.py adapter/test_belief_versions.py",
    ),
    (
        ADAPTER + "/declared/extracts.py",
        "adapter/test_extract_refusals.py adapter/test_extracts.py",
    ),
    (ADAPTER + "/join_bounds.py", "adapter/test_belief_declarations.py adapter/test_joins.py"),
    (ADAPTER + "/asof.py", "adapter/test_asof.py adapter/test_joins.py"),
    (ADAPTER + "/join_indexes.py", "adapter/test_join_indexes.py"),
    (ADAPTER + "/touched_rows.py", "adapter/test_narrowed_tests.py"),
    (
        ADAPTER + "/versions/data_tests.py",
        "adapter/test_repeated_tests.py adapter/test_narrowed_tests.py",
    ),
    (ADAPTER + "/join_arguments.py", "adapter/test_asof.py adapter/test_joins.py"),
    (ADAPTER + "/joins.py", "adapter/test_joins.py"),
    (ADAPTER + "/join_models.py", "adapter/test_joins.py"),
    (ADAPTER + "/retract_sql.py", "adapter/test_changes.py"),
    (
        ADAPTER + "/ranges.py",
        "adapter/test_ranges.py adapter/test_joins.py adapter/test_windows.py",
    ),
    (ADAPTER + "/windows.py", "adapter/test_windows.py"),
    (ADAPTER + "/window_models.py", "adapter/test_windows.py"),
    (ADAPTER + "/window_zones.py", "adapter/test_windows.py"),
    (ADAPTER + "/streams.py", "adapter/test_streams.py"),
    (ADAPTER + "/key_filters.py", "adapter/test_key_filters.py"),
    (ADAPTER + "/microbatch.py", "adapter/test_microbatch.py"),
    (ADAPTER + "/partition_reads.py", "adapter/test_partition_reads.py"),
    (ADAPTER + "/partitions.py", "adapter/test_partition_reads.py adapter/test_units.py"),
    *(
        (
            f"{ADAPTER}/{name}.py",
            "adapter/test_renamed_inputs.py adapter/test_pinned_inputs.py adapter/test_units.py",
        )
        for name in ("inputs", "read_plans")
    ),
    (ADAPTER + "/lease.py", "reliability/test_one_writer.py"),
    (ADAPTER + "/remote_sessions.py", "places/test_takeover.py"),
    (ADAPTER + "/executors.py", "places/test_what_it_lacks.py"),
    (ADAPTER + "/catalogs.py", "places/test_catalogs.py"),
    (ADAPTER + "/processes.py", "reliability/test_one_writer.py"),
    (ADAPTER + "/publications.py", "targets/test_declarations.py targets/test_publish_postgres.py"),
    (ADAPTER + "/publication_records.py", "targets/test_outdated_rows.py"),
    (ADAPTER + "/python_models.py", "adapter/test_python_models.py"),
    (ADAPTER + "/row_places.py", "adapter/test_row_places.py"),
    (ADAPTER + "/worker_files.py", "e2e/test_worker_files.py"),
    (ADAPTER + "/history.py", "adapter/test_pinned_inputs.py adapter/test_changes.py"),
    (ADAPTER + "/transforms.py", "adapter/test_units.py adapter/test_folded_layout.py"),
    (ADAPTER + "/versions/queries.py", "adapter/test_version_queries.py"),
    (ADAPTER + "/versions/arguments.py", "e2e/test_hostile_corpus.py"),
    (ADAPTER + "/versions/own_tables.py", "adapter/test_tables_of_the_adapter.py"),
    (
        ADAPTER + "/versions/*.py",
        "adapter/test_versions.py adapter/test_repeated_tests.py adapter/test_maintenance.py "
        "adapter/test_version_queries.py",
    ),
    (ADAPTER + "/named_reads.py", "adapter/test_default_reads.py adapter/test_hidden_reads.py"),
    (ADAPTER + "/relations_named.py", "adapter/test_hidden_reads.py"),
    (ADAPTER + "/constraints.py", "adapter/test_constraints.py"),
    (ADAPTER + "/session_values.py", "adapter/test_hidden_reads.py"),
    (ADAPTER + "/zones.py", "adapter/test_zones_of_sessions.py"),
    (ADAPTER + "/deletes.py", "adapter/test_hook_deletes.py"),
    (ADAPTER + "/sql_texts.py", "adapter/test_units.py adapter/test_default_reads.py"),
    (ADAPTER + "/interrupts.py", "reliability/test_interrupts.py"),
    (ADAPTER + "/secrets.py", "targets/test_secrets.py"),
    (ADAPTER + "/jars.py", "project/test_supply_chain.py"),
    (ADAPTER + "/private_files.py", "reliability/test_places.py targets/test_secrets.py"),
    (ADAPTER + "/table_reads.py", "adapter/test_pinned_inputs.py adapter/test_default_reads.py"),
    (ADAPTER + "/commits.py", "adapter/test_features.py adapter/test_python_models.py"),
    (ADAPTER + "/news.py", "adapter/test_default_reads.py adapter/test_incremental.py"),
    (ADAPTER + "/seeds.py", "adapter/test_features.py adapter/test_snapshots.py"),
    (ADAPTER + "/declared/*_plans.py", "adapter/test_declared_plans.py"),
    (ADAPTER + "/yaml_fields.py", "adapter/test_declared_plans.py adapter/test_cleaning.py"),
    (ADAPTER + "/counts.py", "adapter/test_closed_periods.py"),
    (
        ADAPTER + "/building.py",
        "adapter/test_features.py adapter/test_pinned_inputs.py adapter/test_incremental.py",
    ),
    (
        ADAPTER + "/impl.py",
        "adapter/test_features.py adapter/test_pinned_inputs.py adapter/test_incremental.py "
        "adapter/test_snapshots.py adapter/test_closed_periods.py",
    ),
    (ADAPTER, "adapter/test_features.py adapter/test_units.py adapter/test_tables.py"),
    # what reads the log
    (
        "python_udfs/ingestion/landing/kafka.py",
        "test_kafka_offsets.py test_kafka_source.py",
    ),
    ("python_udfs/ingestion/landing/*", "test_landing_files.py test_landing_lines.py"),
    ("*/canal.py", "test_canal.py test_against_oracle.py"),
    ("*/debezium/schema_blocks.py", "test_schema_blocks.py"),
    ("*/debezium/*", "test_debezium.py"),
    ("*/mongodb/*", "test_mongodb.py"),
    ("*/events.py", "formats/test_events.py"),
    (
        "*/maxwell.py",
        "test_maxwell_images.py test_maxwell_envelope.py",
    ),
    ("*/exact_numbers.py", "test_exact_numbers.py"),
    ("*/types.py", "tables/test_types.py"),
    (
        "*/ddl.py",
        "test_table_state.py test_hostile_statements.py",
    ),
    (
        "*/statements.py",
        "test_table_state.py test_hostile_statements.py",
    ),
    ("*/whole_table/*", "test_table_state.py"),
    ("*/log/*", "test_log_order.py test_declared_otherwise.py test_renamed_columns.py"),
    (
        "*/log_resets.py",
        "test_log_order.py test_declared_otherwise.py test_renamed_columns.py",
    ),
    ("*/topics.py", "test_topic_patterns.py"),
    ("*/made_by.py", "test_declared_otherwise.py e2e/test_formats_of_topics.py"),
    ("*/table_settings.py", "e2e/test_sources.py"),
    ("*/typed/*", "test_maxwell_images.py e2e/test_corrections.py"),
    ("*/table_changes.py", "test_maxwell_images.py e2e/test_corrections.py"),
    ("*/binlog_messages.py", "test_landing_files.py e2e/test_sources.py"),
    ("python_udfs/ingestion/*", "test_maxwell_envelope.py e2e/test_sources.py"),
    ("python_udfs/targets/kafka.py", "targets/test_publish_kafka.py"),
    (
        "python_udfs/targets/clickhouse.py",
        "servers/test_clickhouse.py targets/test_publish_clickhouse.py",
    ),
    ("python_udfs/targets/mysql.py", "targets/test_publish_mysql.py"),
    ("python_udfs/servers/clickhouse.py", "servers/test_clickhouse.py targets/test_secrets.py"),
    ("python_udfs/targets/*", "targets/test_row_counts.py targets/test_publish_postgres.py"),
    ("*/servers/kafka.py", "test_kafka_offsets.py test_kafka_source.py"),
    ("*/full_load.py", "source/test_full_load_messages.py"),
    ("python_udfs/*", "live/test_source_reconciliation.py targets/test_secrets.py"),
)


def nearest_tests(file: str) -> list[str]:
    """Paths of test modules, below the root. A pattern may leave out folders of a test's path.

    Raises:
        LookupError: no pattern fits.
    """
    for pattern, tests in NEAREST:
        if fnmatch(file, pattern):
            return [_path(test) for test in tests.split()]
    raise LookupError(f"{file} has no tests in {__name__}.NEAREST")


def _path(test: str) -> str:
    (found,) = TESTS.rglob(test)
    return str(found.relative_to(TESTS.parent))
