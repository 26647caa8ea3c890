"""The tables of ReFrame's results store. ReFrame has no function to copy them.

Source: ``_SqliteStorage`` of ReFrame 4.10 (reframe/frontend/reporting/storage.py).
"""

#: ``SCHEMA_VERSION`` in that source.
SCHEMA = "1.0"

TABLES = """
CREATE TABLE IF NOT EXISTS sessions(uuid TEXT PRIMARY KEY, session_start_unix REAL,
    session_end_unix REAL, json_blob TEXT, report_file TEXT);
CREATE TABLE IF NOT EXISTS testcases(name TEXT, system TEXT, partition TEXT, environ TEXT,
    job_completion_time_unix REAL, session_uuid TEXT, uuid TEXT,
    FOREIGN KEY(session_uuid) REFERENCES sessions(uuid) ON DELETE CASCADE);
CREATE TABLE IF NOT EXISTS metadata(schema_version TEXT);
CREATE INDEX IF NOT EXISTS index_testcases_time ON testcases(job_completion_time_unix);
CREATE INDEX IF NOT EXISTS index_sessions_time ON sessions(session_start_unix);
"""
