CREATE OR REPLACE TEMPORARY VIEW traffic_1h_every_10min AS
SELECT window.start, window.end, count(*), avg(delay) FROM flights GROUP BY window(scheduled, '1 hour', '10 minutes');
