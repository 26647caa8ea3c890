-- What each session of a machine measured. `measured.node` is empty if the case ran on several nodes
-- at once. `number` is the place of the case in its session, and `verdict` is that of the case. The
-- view is for readers: docs/history.md. `nodes` has the verdict on each node in each session, the tests
-- that say it, and why; `sessions.word` is the verdict on the run. `metrics.kind` is that of a unit
-- that a test brought.
CREATE TABLE IF NOT EXISTS sessions(id INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE,
    start REAL NOT NULL, run TEXT NOT NULL, word TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS metrics(id INTEGER PRIMARY KEY, test TEXT NOT NULL, system TEXT NOT NULL,
    partition TEXT NOT NULL, environ TEXT NOT NULL, name TEXT NOT NULL, unit TEXT NOT NULL,
    kind TEXT, UNIQUE(test, system, partition, environ, name, unit));
CREATE TABLE IF NOT EXISTS measured(metric INTEGER, node TEXT, session INTEGER, number INTEGER,
    value REAL, verdict TEXT NOT NULL, PRIMARY KEY(metric, node, session, number)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS nodes(system TEXT, node TEXT, session INTEGER, verdict TEXT NOT NULL,
    tests TEXT NOT NULL, why TEXT NOT NULL, drained INTEGER NOT NULL,
    PRIMARY KEY(system, node, session)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS measured_by_session ON measured(session);
CREATE VIEW IF NOT EXISTS history AS SELECT
    strftime('%Y-%m-%dT%H:%M:%SZ', s.start, 'unixepoch') AS start, s.run,
    s.uuid AS session, m.test, m.system, m.partition, m.environ, d.node, m.name AS metric, d.value,
    m.unit, d.verdict FROM measured d JOIN sessions s ON s.id = d.session
    JOIN metrics m ON m.id = d.metric;
