-- Every twelfth query of queries.sql, from the seventh on, as one writes it for Spark: the same windows, conditions and
-- answers, columns in the same order. Spark makes a copy of an event for each window that it falls into: 3.1 million
-- copies a query here, 2.5 million on the average of the whole file.

CREATE TEMPORARY VIEW traffic_1d_every_20min AS
  SELECT window.start, window.end, count(*)
  FROM flights
  GROUP BY window(scheduled, '1 day', '20 minutes');

CREATE TEMPORARY VIEW airline_12h_every_5h AS
  SELECT window.start, window.end, carrier, avg(arrival_delay)
  FROM flights
  GROUP BY window(scheduled, '12 hours', '5 hours'), carrier;

CREATE TEMPORARY VIEW destination_30h_every_1d AS
  SELECT window.start, window.end, dest, avg(arrival_delay)
  FROM flights
  GROUP BY window(scheduled, '30 hours', '1 day'), dest
  HAVING count(*) >= 10;

CREATE TEMPORARY VIEW watch_fl AS
  SELECT window.start, window.end, origin, count(*), avg(delay)
  FROM flights
  WHERE carrier = 'FL'
  GROUP BY window(scheduled, '1 day', '20 minutes'), origin
  HAVING avg(delay) > 75;

CREATE TEMPORARY VIEW watch_sfo AS
  SELECT window.start, window.end, carrier, count(*), avg(arrival_delay)
  FROM flights
  WHERE dest = 'SFO'
  GROUP BY window(scheduled, '12 hours', '20 minutes'), carrier
  HAVING count(*) >= 3 AND avg(arrival_delay) > 90;

CREATE TEMPORARY VIEW later_than_120min_by_airport AS
  SELECT window.start, window.end, origin, count(*)
  FROM flights
  WHERE delay > 120
  GROUP BY window(scheduled, '6 hours', '90 minutes'), origin;

-- Spark's own median and percentiles interpolate, or round the other way. These are the elements that Panewise picks:
-- the middle one, the lower of two, and those at position max(1, floor(phi * n)).
CREATE TEMPORARY VIEW delay_quantiles AS
  SELECT start, end,
    element_at(sorted, int(ceil(size(sorted) / 2))),
    element_at(sorted, greatest(1, int(0.9 * size(sorted)))),
    element_at(sorted, greatest(1, int(0.99 * size(sorted))))
  FROM (
    SELECT window.start, window.end, sort_array(collect_list(delay)) AS sorted
    FROM flights
    GROUP BY window(scheduled, '3 hours', '1 hour')
  );

CREATE TEMPORARY VIEW planes_by_airport AS
  SELECT window.start, window.end, origin, count(DISTINCT tailnum), count(*)
  FROM flights
  GROUP BY window(scheduled, '12 hours', '3 hours'), origin;

CREATE TEMPORARY VIEW made_up_by_airline AS
  SELECT window.start, window.end, carrier, avg(delay - arrival_delay)
  FROM flights
  GROUP BY window(scheduled, '1 day', '6 hours'), carrier;

CREATE TEMPORARY VIEW busy_airport AS
  SELECT window.start, window.end, origin, count(*)
  FROM flights
  GROUP BY window(scheduled, '1 hour', '10 minutes'), origin
  HAVING count(*) >= 25;
