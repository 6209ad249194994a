PRAGMA journal_mode = MEMORY;
CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b TEXT, c REAL);
BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000)
INSERT INTO t SELECT i, (i * 7919) % 10007, printf('row %d of %x', i, i * 31), i / 7.0 FROM n;
COMMIT;
CREATE INDEX t_a ON t (a);
CREATE INDEX t_b ON t (b);
SELECT count(*), sum(c) FROM t WHERE a BETWEEN 100 AND 2000;
SELECT a % 97 AS g, count(*), avg(c), max(b) FROM t GROUP BY g ORDER BY 2 DESC, 1 LIMIT 5;
SELECT count(*) FROM t AS x JOIN t AS y ON y.a = x.a + 1 WHERE x.id < 2000;
UPDATE t SET c = c + a WHERE id % 3 = 0;
DELETE FROM t WHERE b LIKE '%ff%';
SELECT count(*), sum(length(b)), total(c) FROM t;
