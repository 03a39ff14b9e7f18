-- The 120 queries of `panewise demo`, over every flight that left New York City in 2013.
--
-- Events arrive in the order in which planes left; the event time is when they should have left. The worst delay is
-- 21 hours and 41 minutes, so a watermark of a day waits for every flight, and no event is late.

CREATE STREAM flights (
  scheduled TIMESTAMP, origin STRING, dest STRING, carrier STRING, tailnum STRING, distance BIGINT,
  delay DOUBLE, arrival_delay DOUBLE, air_time DOUBLE  -- minutes; the last two are NULL for diverted flights
) TIMESTAMP BY scheduled WATERMARK 1 DAY GRANULARITY 10 MINUTES;

-- Traffic at the three airports together, at many time scales.

CREATE QUERY traffic_1h_every_10min AS
  SELECT COUNT(*) FROM flights [RANGE 1 HOUR SLIDE 10 MINUTES];
CREATE QUERY traffic_90min_every_30min AS
  SELECT COUNT(*) FROM flights [RANGE 90 MINUTES SLIDE 30 MINUTES];
CREATE QUERY traffic_2h_every_30min AS
  SELECT COUNT(*) FROM flights [RANGE 2 HOURS SLIDE 30 MINUTES];
CREATE QUERY traffic_3h_every_20min AS
  SELECT COUNT(*) FROM flights [RANGE 3 HOURS SLIDE 20 MINUTES];
CREATE QUERY traffic_6h_every_30min AS
  SELECT COUNT(*) FROM flights [RANGE 6 HOURS SLIDE 30 MINUTES];
CREATE QUERY traffic_12h_every_30min AS
  SELECT COUNT(*) FROM flights [RANGE 12 HOURS SLIDE 30 MINUTES];
CREATE QUERY traffic_1d_every_20min AS
  SELECT COUNT(*) FROM flights [RANGE 1 DAY SLIDE 20 MINUTES];
CREATE QUERY traffic_2d_every_30min AS
  SELECT COUNT(*) FROM flights [RANGE 2 DAYS SLIDE 30 MINUTES];

-- The same for each airport. Five hours are no multiple of two: such windows are as good as any other.

CREATE QUERY airport_1h_every_1h AS
  SELECT origin, AVG(delay) FROM flights [RANGE 1 HOUR SLIDE 1 HOUR] GROUP BY origin;
CREATE QUERY airport_2h_every_1h AS
  SELECT origin, AVG(delay) FROM flights [RANGE 2 HOURS SLIDE 1 HOUR] GROUP BY origin;
CREATE QUERY airport_3h_every_2h AS
  SELECT origin, AVG(delay) FROM flights [RANGE 3 HOURS SLIDE 2 HOURS] GROUP BY origin;
CREATE QUERY airport_5h_every_2h AS
  SELECT origin, AVG(delay) FROM flights [RANGE 5 HOURS SLIDE 2 HOURS] GROUP BY origin;
CREATE QUERY airport_6h_every_90min AS
  SELECT origin, AVG(delay) FROM flights [RANGE 6 HOURS SLIDE 90 MINUTES] GROUP BY origin;
CREATE QUERY airport_12h_every_2h AS
  SELECT origin, AVG(delay) FROM flights [RANGE 12 HOURS SLIDE 2 HOURS] GROUP BY origin;
CREATE QUERY airport_1d_every_2h AS
  SELECT origin, AVG(delay) FROM flights [RANGE 1 DAY SLIDE 2 HOURS] GROUP BY origin;
CREATE QUERY airport_2d_every_2h AS
  SELECT origin, AVG(delay) FROM flights [RANGE 2 DAYS SLIDE 2 HOURS] GROUP BY origin;

-- Airlines.

CREATE QUERY airline_4h_every_6h AS
  SELECT carrier, AVG(arrival_delay) FROM flights [RANGE 4 HOURS SLIDE 6 HOURS] GROUP BY carrier;
CREATE QUERY airline_6h_every_6h AS
  SELECT carrier, AVG(arrival_delay) FROM flights [RANGE 6 HOURS SLIDE 6 HOURS] GROUP BY carrier;
CREATE QUERY airline_12h_every_5h AS
  SELECT carrier, AVG(arrival_delay) FROM flights [RANGE 12 HOURS SLIDE 5 HOURS] GROUP BY carrier;
CREATE QUERY airline_1d_every_6h AS
  SELECT carrier, AVG(arrival_delay) FROM flights [RANGE 1 DAY SLIDE 6 HOURS] GROUP BY carrier;
CREATE QUERY airline_1d_every_1d AS
  SELECT carrier, AVG(arrival_delay) FROM flights [RANGE 1 DAY SLIDE 1 DAY] GROUP BY carrier;
CREATE QUERY airline_2d_every_12h AS
  SELECT carrier, AVG(arrival_delay) FROM flights [RANGE 2 DAYS SLIDE 12 HOURS] GROUP BY carrier;

-- Each airline at each airport.

CREATE QUERY airline_at_airport_6h_every_1d AS
  SELECT origin, carrier, AVG(delay) FROM flights [RANGE 6 HOURS SLIDE 1 DAY] GROUP BY origin, carrier;
CREATE QUERY airline_at_airport_12h_every_12h AS
  SELECT origin, carrier, AVG(delay) FROM flights [RANGE 12 HOURS SLIDE 12 HOURS] GROUP BY origin, carrier;
CREATE QUERY airline_at_airport_1d_every_1d AS
  SELECT origin, carrier, AVG(delay) FROM flights [RANGE 1 DAY SLIDE 1 DAY] GROUP BY origin, carrier;
CREATE QUERY airline_at_airport_36h_every_1d AS
  SELECT origin, carrier, AVG(delay) FROM flights [RANGE 36 HOURS SLIDE 1 DAY] GROUP BY origin, carrier;
CREATE QUERY airline_at_airport_2d_every_1d AS
  SELECT origin, carrier, AVG(delay) FROM flights [RANGE 2 DAYS SLIDE 1 DAY] GROUP BY origin, carrier;

-- Destinations with enough flights to tell. A range may be shorter than the slide: here are the mornings.

CREATE QUERY destination_12h_every_1d AS
  SELECT dest, AVG(arrival_delay)
  FROM flights [RANGE 12 HOURS SLIDE 1 DAY] GROUP BY dest HAVING COUNT(*) >= 10;
CREATE QUERY destination_12h_every_12h AS
  SELECT dest, AVG(arrival_delay)
  FROM flights [RANGE 12 HOURS SLIDE 12 HOURS] GROUP BY dest HAVING COUNT(*) >= 10;
CREATE QUERY destination_1d_every_1d AS
  SELECT dest, AVG(arrival_delay) FROM flights [RANGE 1 DAY SLIDE 1 DAY] GROUP BY dest HAVING COUNT(*) >= 10;
CREATE QUERY destination_30h_every_1d AS
  SELECT dest, AVG(arrival_delay)
  FROM flights [RANGE 30 HOURS SLIDE 1 DAY] GROUP BY dest HAVING COUNT(*) >= 10;
CREATE QUERY destination_2d_every_1d AS
  SELECT dest, AVG(arrival_delay) FROM flights [RANGE 2 DAYS SLIDE 1 DAY] GROUP BY dest HAVING COUNT(*) >= 10;

-- Watched airlines: the airports at which they have been late for half a day, and the smaller ones for a day.

CREATE QUERY watch_ua AS
  SELECT origin, COUNT(*), AVG(delay)
  FROM flights [RANGE 12 HOURS SLIDE 20 MINUTES]
  WHERE carrier = 'UA' GROUP BY origin HAVING COUNT(*) >= 5 AND AVG(delay) > 75;
CREATE QUERY watch_b6 AS
  SELECT origin, COUNT(*), AVG(delay)
  FROM flights [RANGE 12 HOURS SLIDE 20 MINUTES]
  WHERE carrier = 'B6' GROUP BY origin HAVING COUNT(*) >= 5 AND AVG(delay) > 75;
CREATE QUERY watch_ev AS
  SELECT origin, COUNT(*), AVG(delay)
  FROM flights [RANGE 12 HOURS SLIDE 20 MINUTES]
  WHERE carrier = 'EV' GROUP BY origin HAVING COUNT(*) >= 5 AND AVG(delay) > 75;
CREATE QUERY watch_dl AS
  SELECT origin, COUNT(*), AVG(delay)
  FROM flights [RANGE 12 HOURS SLIDE 20 MINUTES]
  WHERE carrier = 'DL' GROUP BY origin HAVING COUNT(*) >= 5 AND AVG(delay) > 75;
CREATE QUERY watch_aa AS
  SELECT origin, COUNT(*), AVG(delay)
  FROM flights [RANGE 12 HOURS SLIDE 20 MINUTES]
  WHERE carrier = 'AA' GROUP BY origin HAVING COUNT(*) >= 5 AND AVG(delay) > 75;
CREATE QUERY watch_mq AS
  SELECT origin, COUNT(*), AVG(delay)
  FROM flights [RANGE 12 HOURS SLIDE 20 MINUTES]
  WHERE carrier = 'MQ' GROUP BY origin HAVING COUNT(*) >= 5 AND AVG(delay) > 75;
CREATE QUERY watch_us AS
  SELECT origin, COUNT(*), AVG(delay)
  FROM flights [RANGE 12 HOURS SLIDE 20 MINUTES]
  WHERE carrier = 'US' GROUP BY origin HAVING COUNT(*) >= 5 AND AVG(delay) > 75;
CREATE QUERY watch_9e AS
  SELECT origin, COUNT(*), AVG(delay)
  FROM flights [RANGE 12 HOURS SLIDE 20 MINUTES]
  WHERE carrier = '9E' GROUP BY origin HAVING COUNT(*) >= 5 AND AVG(delay) > 75;
CREATE QUERY watch_wn AS
  SELECT origin, COUNT(*), AVG(delay)
  FROM flights [RANGE 1 DAY SLIDE 20 MINUTES] WHERE carrier = 'WN' GROUP BY origin HAVING AVG(delay) > 75;
CREATE QUERY watch_vx AS
  SELECT origin, COUNT(*), AVG(delay)
  FROM flights [RANGE 1 DAY SLIDE 20 MINUTES] WHERE carrier = 'VX' GROUP BY origin HAVING AVG(delay) > 75;
CREATE QUERY watch_fl AS
  SELECT origin, COUNT(*), AVG(delay)
  FROM flights [RANGE 1 DAY SLIDE 20 MINUTES] WHERE carrier = 'FL' GROUP BY origin HAVING AVG(delay) > 75;
CREATE QUERY watch_as AS
  SELECT origin, COUNT(*), AVG(delay)
  FROM flights [RANGE 1 DAY SLIDE 20 MINUTES] WHERE carrier = 'AS' GROUP BY origin HAVING AVG(delay) > 75;
CREATE QUERY watch_f9 AS
  SELECT origin, COUNT(*), AVG(delay)
  FROM flights [RANGE 1 DAY SLIDE 20 MINUTES] WHERE carrier = 'F9' GROUP BY origin HAVING AVG(delay) > 75;
CREATE QUERY watch_yv AS
  SELECT origin, COUNT(*), AVG(delay)
  FROM flights [RANGE 1 DAY SLIDE 20 MINUTES] WHERE carrier = 'YV' GROUP BY origin HAVING AVG(delay) > 75;
CREATE QUERY watch_ha AS
  SELECT origin, COUNT(*), AVG(delay)
  FROM flights [RANGE 1 DAY SLIDE 20 MINUTES] WHERE carrier = 'HA' GROUP BY origin HAVING AVG(delay) > 75;
CREATE QUERY watch_oo AS
  SELECT origin, COUNT(*), AVG(delay)
  FROM flights [RANGE 1 DAY SLIDE 20 MINUTES] WHERE carrier = 'OO' GROUP BY origin HAVING AVG(delay) > 75;

-- Watched destinations: the airlines that have been late on the way there.

CREATE QUERY watch_ord AS
  SELECT carrier, COUNT(*), AVG(arrival_delay)
  FROM flights [RANGE 1 DAY SLIDE 20 MINUTES]
  WHERE dest = 'ORD' GROUP BY carrier HAVING COUNT(*) >= 3 AND AVG(arrival_delay) > 90;
CREATE QUERY watch_atl AS
  SELECT carrier, COUNT(*), AVG(arrival_delay)
  FROM flights [RANGE 1 DAY SLIDE 20 MINUTES]
  WHERE dest = 'ATL' GROUP BY carrier HAVING COUNT(*) >= 3 AND AVG(arrival_delay) > 90;
CREATE QUERY watch_lax AS
  SELECT carrier, COUNT(*), AVG(arrival_delay)
  FROM flights [RANGE 1 DAY SLIDE 20 MINUTES]
  WHERE dest = 'LAX' GROUP BY carrier HAVING COUNT(*) >= 3 AND AVG(arrival_delay) > 90;
CREATE QUERY watch_bos AS
  SELECT carrier, COUNT(*), AVG(arrival_delay)
  FROM flights [RANGE 1 DAY SLIDE 20 MINUTES]
  WHERE dest = 'BOS' GROUP BY carrier HAVING COUNT(*) >= 3 AND AVG(arrival_delay) > 90;
CREATE QUERY watch_mco AS
  SELECT carrier, COUNT(*), AVG(arrival_delay)
  FROM flights [RANGE 1 DAY SLIDE 20 MINUTES]
  WHERE dest = 'MCO' GROUP BY carrier HAVING COUNT(*) >= 3 AND AVG(arrival_delay) > 90;
CREATE QUERY watch_clt AS
  SELECT carrier, COUNT(*), AVG(arrival_delay)
  FROM flights [RANGE 1 DAY SLIDE 20 MINUTES]
  WHERE dest = 'CLT' GROUP BY carrier HAVING COUNT(*) >= 3 AND AVG(arrival_delay) > 90;
CREATE QUERY watch_sfo AS
  SELECT carrier, COUNT(*), AVG(arrival_delay)
  FROM flights [RANGE 12 HOURS SLIDE 20 MINUTES]
  WHERE dest = 'SFO' GROUP BY carrier HAVING COUNT(*) >= 3 AND AVG(arrival_delay) > 90;
CREATE QUERY watch_fll AS
  SELECT carrier, COUNT(*), AVG(arrival_delay)
  FROM flights [RANGE 12 HOURS SLIDE 20 MINUTES]
  WHERE dest = 'FLL' GROUP BY carrier HAVING COUNT(*) >= 3 AND AVG(arrival_delay) > 90;
CREATE QUERY watch_mia AS
  SELECT carrier, COUNT(*), AVG(arrival_delay)
  FROM flights [RANGE 12 HOURS SLIDE 20 MINUTES]
  WHERE dest = 'MIA' GROUP BY carrier HAVING COUNT(*) >= 3 AND AVG(arrival_delay) > 90;
CREATE QUERY watch_dca AS
  SELECT carrier, COUNT(*), AVG(arrival_delay)
  FROM flights [RANGE 12 HOURS SLIDE 20 MINUTES]
  WHERE dest = 'DCA' GROUP BY carrier HAVING COUNT(*) >= 3 AND AVG(arrival_delay) > 90;
CREATE QUERY watch_dtw AS
  SELECT carrier, COUNT(*), AVG(arrival_delay)
  FROM flights [RANGE 12 HOURS SLIDE 20 MINUTES]
  WHERE dest = 'DTW' GROUP BY carrier HAVING COUNT(*) >= 3 AND AVG(arrival_delay) > 90;
CREATE QUERY watch_dfw AS
  SELECT carrier, COUNT(*), AVG(arrival_delay)
  FROM flights [RANGE 12 HOURS SLIDE 20 MINUTES]
  WHERE dest = 'DFW' GROUP BY carrier HAVING COUNT(*) >= 3 AND AVG(arrival_delay) > 90;

-- Late departures: how many, and how bad.

CREATE QUERY later_than_15min_by_airport AS
  SELECT origin, COUNT(*) FROM flights [RANGE 6 HOURS SLIDE 90 MINUTES] WHERE delay > 15 GROUP BY origin;
CREATE QUERY later_than_15min_rush AS
  SELECT COUNT(*), MAX(delay)
  FROM flights [RANGE 6 HOURS SLIDE 10 MINUTES] WHERE delay > 15 HAVING COUNT(*) >= 133;
CREATE QUERY later_than_30min_by_airport AS
  SELECT origin, COUNT(*) FROM flights [RANGE 6 HOURS SLIDE 90 MINUTES] WHERE delay > 30 GROUP BY origin;
CREATE QUERY later_than_30min_rush AS
  SELECT COUNT(*), MAX(delay)
  FROM flights [RANGE 6 HOURS SLIDE 10 MINUTES] WHERE delay > 30 HAVING COUNT(*) >= 66;
CREATE QUERY later_than_60min_by_airport AS
  SELECT origin, COUNT(*) FROM flights [RANGE 6 HOURS SLIDE 90 MINUTES] WHERE delay > 60 GROUP BY origin;
CREATE QUERY later_than_60min_rush AS
  SELECT COUNT(*), MAX(delay)
  FROM flights [RANGE 6 HOURS SLIDE 10 MINUTES] WHERE delay > 60 HAVING COUNT(*) >= 33;
CREATE QUERY later_than_120min_by_airport AS
  SELECT origin, COUNT(*) FROM flights [RANGE 6 HOURS SLIDE 90 MINUTES] WHERE delay > 120 GROUP BY origin;
CREATE QUERY later_than_120min_rush AS
  SELECT COUNT(*), MAX(delay)
  FROM flights [RANGE 6 HOURS SLIDE 10 MINUTES] WHERE delay > 120 HAVING COUNT(*) >= 16;
CREATE QUERY later_than_180min_by_airport AS
  SELECT origin, COUNT(*) FROM flights [RANGE 6 HOURS SLIDE 90 MINUTES] WHERE delay > 180 GROUP BY origin;
CREATE QUERY later_than_180min_rush AS
  SELECT COUNT(*), MAX(delay)
  FROM flights [RANGE 6 HOURS SLIDE 10 MINUTES] WHERE delay > 180 HAVING COUNT(*) >= 15;

-- Short and long flights: time in the air and miles flown.

CREATE QUERY short_haul AS
  SELECT AVG(air_time) FROM flights [RANGE 6 HOURS SLIDE 1 HOUR] WHERE distance < 500;
CREATE QUERY short_haul_by_airline AS
  SELECT carrier, SUM(distance)
  FROM flights [RANGE 1 DAY SLIDE 12 HOURS] WHERE distance < 500 GROUP BY carrier;
CREATE QUERY medium_haul AS
  SELECT AVG(air_time) FROM flights [RANGE 6 HOURS SLIDE 1 HOUR] WHERE distance BETWEEN 500 AND 1500;
CREATE QUERY medium_haul_by_airline AS
  SELECT carrier, SUM(distance)
  FROM flights [RANGE 1 DAY SLIDE 12 HOURS] WHERE distance BETWEEN 500 AND 1500 GROUP BY carrier;
CREATE QUERY long_haul AS
  SELECT AVG(air_time) FROM flights [RANGE 6 HOURS SLIDE 1 HOUR] WHERE distance > 1500;
CREATE QUERY long_haul_by_airline AS
  SELECT carrier, SUM(distance)
  FROM flights [RANGE 1 DAY SLIDE 12 HOURS] WHERE distance > 1500 GROUP BY carrier;
CREATE QUERY island_haul AS
  SELECT AVG(air_time)
  FROM flights [RANGE 6 HOURS SLIDE 1 HOUR] WHERE dest IN ('HNL', 'SJU', 'STT', 'BQN', 'PSE');
CREATE QUERY island_haul_by_airline AS
  SELECT carrier, SUM(distance)
  FROM flights [RANGE 1 DAY SLIDE 12 HOURS] WHERE dest IN ('HNL', 'SJU', 'STT', 'BQN', 'PSE') GROUP BY carrier;

-- Medians and quantiles: exact, from the same slots.

CREATE QUERY delay_quantiles AS
  SELECT MEDIAN(delay), QUANTILE(delay, 0.9), QUANTILE(delay, 0.99) FROM flights [RANGE 3 HOURS SLIDE 1 HOUR];
CREATE QUERY delay_quantiles_day AS
  SELECT MEDIAN(delay), QUANTILE(delay, 0.9), QUANTILE(delay, 0.99) FROM flights [RANGE 1 DAY SLIDE 2 HOURS];
CREATE QUERY median_by_airport AS
  SELECT origin, MEDIAN(arrival_delay) FROM flights [RANGE 6 HOURS SLIDE 2 HOURS] GROUP BY origin;
CREATE QUERY worst_tenth_by_airport AS
  SELECT origin, QUANTILE(delay, 0.9) FROM flights [RANGE 5 HOURS SLIDE 2 HOURS] GROUP BY origin;
CREATE QUERY median_by_airline AS
  SELECT carrier, MEDIAN(delay), MODE(delay) FROM flights [RANGE 1 DAY SLIDE 12 HOURS] GROUP BY carrier;
CREATE QUERY worst_tenth_by_airline AS
  SELECT carrier, QUANTILE(arrival_delay, 0.9) FROM flights [RANGE 1 DAY SLIDE 12 HOURS] GROUP BY carrier;
CREATE QUERY quartiles_by_airline AS
  SELECT carrier, QUANTILE(delay, 0.25), MEDIAN(delay), QUANTILE(delay, 0.75)
  FROM flights [RANGE 2 DAYS SLIDE 1 DAY] GROUP BY carrier;
CREATE QUERY median_by_airline_at_airport AS
  SELECT origin, carrier, MEDIAN(delay) FROM flights [RANGE 1 DAY SLIDE 1 DAY] GROUP BY origin, carrier;
CREATE QUERY median_by_destination AS
  SELECT dest, MEDIAN(arrival_delay)
  FROM flights [RANGE 1 DAY SLIDE 12 HOURS] GROUP BY dest HAVING COUNT(*) >= 20;
CREATE QUERY worst_tenth_long_haul AS
  SELECT origin, QUANTILE(delay, 0.9)
  FROM flights [RANGE 8 HOURS SLIDE 2 HOURS] WHERE distance > 1500 GROUP BY origin;

-- Different planes, airlines and destinations.

CREATE QUERY planes AS
  SELECT COUNT(DISTINCT tailnum) FROM flights [RANGE 6 HOURS SLIDE 1 HOUR];
CREATE QUERY planes_day AS
  SELECT COUNT(DISTINCT tailnum), COUNT(*) FROM flights [RANGE 1 DAY SLIDE 2 HOURS];
CREATE QUERY planes_by_airport AS
  SELECT origin, COUNT(DISTINCT tailnum), COUNT(*) FROM flights [RANGE 12 HOURS SLIDE 3 HOURS] GROUP BY origin;
CREATE QUERY planes_by_airline AS
  SELECT carrier, COUNT(DISTINCT tailnum) FROM flights [RANGE 1 DAY SLIDE 12 HOURS] GROUP BY carrier;
CREATE QUERY planes_by_destination AS
  SELECT dest, COUNT(DISTINCT tailnum)
  FROM flights [RANGE 2 DAYS SLIDE 12 HOURS] GROUP BY dest HAVING COUNT(*) >= 40;
CREATE QUERY destinations_by_airport AS
  SELECT origin, COUNT(DISTINCT dest) FROM flights [RANGE 3 HOURS SLIDE 90 MINUTES] GROUP BY origin;
CREATE QUERY destinations_by_airline AS
  SELECT carrier, COUNT(DISTINCT dest) FROM flights [RANGE 1 DAY SLIDE 12 HOURS] GROUP BY carrier;
CREATE QUERY airlines_by_destination AS
  SELECT dest, COUNT(DISTINCT carrier)
  FROM flights [RANGE 1 DAY SLIDE 12 HOURS] GROUP BY dest HAVING COUNT(DISTINCT carrier) >= 5;

-- How steady the timetable is.

CREATE QUERY spread AS
  SELECT MIN(delay), MAX(delay), VAR_POP(delay), VAR_SAMP(delay) FROM flights [RANGE 8 HOURS SLIDE 3 HOURS];
CREATE QUERY spread_by_airport AS
  SELECT origin, STDDEV_POP(delay) FROM flights [RANGE 12 HOURS SLIDE 90 MINUTES] GROUP BY origin;
CREATE QUERY spread_by_airline AS
  SELECT carrier, STDDEV_SAMP(arrival_delay) FROM flights [RANGE 1 DAY SLIDE 12 HOURS] GROUP BY carrier;
CREATE QUERY spread_by_destination AS
  SELECT dest, COUNT(air_time), STDDEV_SAMP(air_time)
  FROM flights [RANGE 2 DAYS SLIDE 1 DAY] GROUP BY dest HAVING COUNT(air_time) >= 40;
CREATE QUERY spread_of_early_flights AS
  SELECT origin, MIN(delay), VAR_SAMP(delay)
  FROM flights [RANGE 8 HOURS SLIDE 5 HOURS] WHERE delay < 0 GROUP BY origin;

-- Aggregates of expressions: time made up in the air, speed in miles per hour.

CREATE QUERY made_up AS
  SELECT AVG(delay - arrival_delay), MAX(delay - arrival_delay) FROM flights [RANGE 3 HOURS SLIDE 1 HOUR];
CREATE QUERY made_up_by_airline AS
  SELECT carrier, AVG(delay - arrival_delay) FROM flights [RANGE 1 DAY SLIDE 6 HOURS] GROUP BY carrier;
CREATE QUERY made_up_by_destination AS
  SELECT dest, AVG(delay - arrival_delay)
  FROM flights [RANGE 2 DAYS SLIDE 12 HOURS] GROUP BY dest HAVING COUNT(*) >= 40;
CREATE QUERY speed AS
  SELECT AVG(distance * 60 / air_time), MAX(distance * 60 / air_time)
  FROM flights [RANGE 6 HOURS SLIDE 90 MINUTES];
CREATE QUERY speed_by_airline AS
  SELECT carrier, AVG(distance * 60 / air_time)
  FROM flights [RANGE 1 DAY SLIDE 12 HOURS] WHERE distance > 500 GROUP BY carrier;
CREATE QUERY speed_to_the_west_coast AS
  SELECT origin, AVG(distance * 60 / air_time), COUNT(*)
  FROM flights [RANGE 1 DAY SLIDE 6 HOURS] WHERE dest IN ('LAX', 'SFO', 'SEA', 'SAN', 'PDX') GROUP BY origin;

-- Alerts: only the windows in which something is wrong.

CREATE QUERY bad_hour AS
  SELECT COUNT(*), AVG(delay)
  FROM flights [RANGE 1 HOUR SLIDE 10 MINUTES] HAVING COUNT(*) >= 20 AND AVG(delay) > 60;
CREATE QUERY bad_hour_at_airport AS
  SELECT origin, COUNT(*), AVG(delay), MAX(delay)
  FROM flights [RANGE 1 HOUR SLIDE 10 MINUTES] GROUP BY origin HAVING COUNT(*) >= 10 AND AVG(delay) > 60;
CREATE QUERY airport_in_trouble AS
  SELECT origin, COUNT(*), AVG(delay)
  FROM flights [RANGE 12 HOURS SLIDE 10 MINUTES] GROUP BY origin HAVING COUNT(*) >= 30 AND AVG(delay) > 75;
CREATE QUERY airline_in_trouble AS
  SELECT carrier, COUNT(*), AVG(delay), MAX(delay)
  FROM flights [RANGE 1 DAY SLIDE 10 MINUTES] GROUP BY carrier HAVING COUNT(*) >= 30 AND AVG(delay) > 75;
CREATE QUERY airline_in_trouble_at_airport AS
  SELECT origin, carrier, COUNT(*), AVG(delay)
  FROM flights [RANGE 1 DAY SLIDE 20 MINUTES]
  GROUP BY origin, carrier HAVING COUNT(*) >= 20 AND AVG(delay) > 60;
CREATE QUERY destination_in_trouble AS
  SELECT dest, COUNT(*), AVG(arrival_delay)
  FROM flights [RANGE 2 DAYS SLIDE 1 HOUR] GROUP BY dest HAVING COUNT(*) >= 10 AND AVG(arrival_delay) > 90;
CREATE QUERY quiet_airport AS
  SELECT origin, COUNT(*) FROM flights [RANGE 2 HOURS SLIDE 30 MINUTES] GROUP BY origin HAVING COUNT(*) < 5;
CREATE QUERY busy_airport AS
  SELECT origin, COUNT(*) FROM flights [RANGE 1 HOUR SLIDE 10 MINUTES] GROUP BY origin HAVING COUNT(*) >= 25;
CREATE QUERY median_over_half_an_hour AS
  SELECT origin, MEDIAN(delay), COUNT(*)
  FROM flights [RANGE 2 HOURS SLIDE 10 MINUTES] GROUP BY origin HAVING MEDIAN(delay) > 30 AND COUNT(*) >= 10;
CREATE QUERY few_planes_many_flights AS
  SELECT carrier, COUNT(*), COUNT(DISTINCT tailnum)
  FROM flights [RANGE 1 DAY SLIDE 1 HOUR] GROUP BY carrier HAVING COUNT(*) > 1.7 * COUNT(DISTINCT tailnum);
CREATE QUERY everything_on_time AS
  SELECT origin, COUNT(*), MAX(delay)
  FROM flights [RANGE 2 HOURS SLIDE 10 MINUTES] GROUP BY origin HAVING COUNT(*) >= 15 AND MAX(delay) <= 10;
CREATE QUERY rush_of_late_flights_to_chicago AS
  SELECT carrier, COUNT(*), AVG(delay)
  FROM flights [RANGE 1 DAY SLIDE 20 MINUTES]
  WHERE dest IN ('ORD', 'MDW') AND delay > 30 GROUP BY carrier HAVING COUNT(*) >= 10;
CREATE QUERY evening_after_a_bad_day AS
  SELECT origin, COUNT(*), AVG(delay), QUANTILE(delay, 0.75)
  FROM flights [RANGE 8 HOURS SLIDE 20 MINUTES] GROUP BY origin HAVING AVG(delay) > 60;
