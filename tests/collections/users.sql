spark ~ SELECT date_trunc('month', o.created_at) AS m, country, COUNT(DISTINCT customer_id) AS buyers, SUM(amount) AS rev FROM orders o JOIN customers c USING (id) GROUP BY ALL
snowflake = SELECT * FROM orders QUALIFY ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY updated_at DESC) = 1
snowflake ~ SELECT customer_id, ARRAY_AGG(DISTINCT status) WITHIN GROUP (ORDER BY status) AS s FROM orders GROUP BY 1
snowflake = SELECT IFF(amount > 10, 'big', 'small') AS size, COUNT(*) AS n, ZEROIFNULL(SUM(amount)) AS t FROM orders GROUP BY 1
snowflake ~ SELECT id, payload:customer.name::string AS n FROM orders
snowflake = SELECT DATEADD(day, 7, created_at) AS due, DATEDIFF('day', created_at, updated_at) AS d FROM orders
snowflake = SELECT customer_id, LISTAGG(status, ',') WITHIN GROUP (ORDER BY id) AS l FROM orders GROUP BY customer_id
snowflake = SELECT * FROM (SELECT method, amount FROM payments) PIVOT (SUM(amount) FOR method IN ('card', 'cash'))
bigquery ~ SELECT TIMESTAMP_TRUNC(created_at, HOUR) AS h, COUNTIF(status = 'x') AS c, APPROX_COUNT_DISTINCT(customer_id) AS u FROM orders GROUP BY h
bigquery = SELECT customer_id, STRING_AGG(DISTINCT status, ', ' ORDER BY status) AS s FROM orders GROUP BY customer_id
bigquery = SELECT id, SAFE_DIVIDE(amount, 3) AS s, SAFE_CAST(status AS INT64) AS i FROM orders
bigquery ~ SELECT id, t FROM orders, UNNEST(tags) AS t WITH OFFSET AS o WHERE o = 0
bigquery = SELECT * EXCEPT (payload), FORMAT_DATE('%Y-%m', DATE(created_at)) AS ym FROM orders
bigquery ~ SELECT DATE_DIFF(DATE(updated_at), DATE(created_at), DAY) AS d, PARSE_DATE('%Y%m%d', status) AS p FROM orders
bigquery ~ SELECT JSON_EXTRACT_SCALAR(payload, '$.a') AS a, JSON_VALUE(payload, '$.b') AS b FROM orders
bigquery = SELECT TO_HEX(MD5(CONCAT(CAST(id AS STRING), '-', status))) AS sk FROM orders
spark = SELECT md5(cast(coalesce(cast(id as string), '_null_') || '-' || coalesce(status, '_null_') as string)) AS sk, * FROM orders
spark ~ SELECT customer_id, collect_set(status) AS s, max_by(status, updated_at) AS last FROM orders GROUP BY customer_id
spark ~ SELECT id, explode(sequence(to_date(created_at), to_date(updated_at), interval 1 day)) AS d FROM orders
spark ~ SELECT window(ts, '1 hour').start AS w, event_type, count(*) AS n FROM events GROUP BY window(ts, '1 hour'), event_type
spark ~ SELECT user_id, props['utm_source'] AS src, url FROM events WHERE parse_url(url, 'HOST') = 'a.com'
spark = SELECT * FROM orders PIVOT (SUM(amount) FOR status IN ('a', 'b'))
spark = SELECT id, transform(tags, t -> upper(t)) AS t, array_join(array_sort(tags), '|') AS j FROM orders
spark = SELECT o.id, p.paid FROM orders o LEFT JOIN LATERAL (SELECT SUM(amount) AS paid FROM payments p WHERE p.order_id = o.id) p ON TRUE
spark ~ SELECT id, xxhash64(id, status) AS h, hash(email) AS e FROM orders JOIN customers USING (id)
spark = SELECT id, amount, SUM(amount) OVER (PARTITION BY customer_id ORDER BY created_at ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS s7 FROM orders
spark = SELECT id, NTILE(4) OVER (ORDER BY amount) AS q, PERCENT_RANK() OVER (ORDER BY amount) AS pr FROM orders
spark = SELECT id, LAG(status) OVER (PARTITION BY customer_id ORDER BY created_at) AS prev FROM orders
spark ~ SELECT customer_id, percentile_approx(amount, 0.5) AS med, stddev(amount) AS sd FROM orders GROUP BY customer_id
spark ~ SELECT id, from_json(payload, 'a INT, b STRUCT<c: STRING>').b.c AS c FROM orders
spark ~ SELECT stack(2, 'f', first_name, 'l', last_name) AS (k, v), id FROM customers
spark = SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM payments p WHERE p.order_id = o.id AND p.amount > o.amount / 2)
spark = SELECT a.id, b.id AS dup FROM customers a JOIN customers b ON lower(a.email) = lower(b.email) AND a.id < b.id
spark = SELECT country, count(*) FILTER (WHERE email LIKE '%@x.com') AS n, bool_or(email IS NULL) AS b FROM customers GROUP BY country
spark = SELECT named_struct('a', id, 'b', status) AS s, to_json(named_struct('a', id)) AS j FROM orders
spark ~ SELECT id, date_format(created_at, 'yyyy-MM') AS ym, last_day(created_at) AS l, add_months(created_at, 1) AS n FROM orders
spark = SELECT concat_ws('-', sort_array(collect_set(status))) AS x FROM orders
spark = SELECT try_cast(status AS INT) AS i, nvl2(status, 1, 0) AS n, regexp_extract(url, 'id=([0-9]+)', 1) AS r FROM orders CROSS JOIN events
spark ~ SELECT id, CASE WHEN grouping(status) = 1 THEN 'all' ELSE status END AS s, COUNT(*) AS n FROM orders GROUP BY ROLLUP (id, status)
flink ~ SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' MINUTES)) GROUP BY window_start, window_end
flink ~ SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY created_at DESC) AS rn FROM orders) WHERE rn <= 3
flink ~ SELECT DATE_FORMAT(ts, 'yyyy-MM-dd') AS d, COUNT(*) FILTER (WHERE event_type = 'c') AS c FROM events GROUP BY DATE_FORMAT(ts, 'yyyy-MM-dd')
flink ~ SELECT TUMBLE_START(ts, INTERVAL '1' HOUR) AS w, COUNT(DISTINCT user_id) AS u FROM events GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)
flink ~ SELECT user_id, SPLIT_INDEX(url, '/', 2) AS host, TIMESTAMPDIFF(MINUTE, ts, ts) AS m FROM events
duckdb = SELECT status, list(id ORDER BY id) AS ids, string_agg(status, ',' ORDER BY id) AS s, arg_max(status, updated_at) AS a FROM orders GROUP BY status
duckdb = SELECT unnest(generate_series(1, 3)) AS g, id FROM orders
duckdb = SELECT id, strftime(created_at, '%Y-%m-%d') AS d, date_part('dow', created_at) AS w, regexp_matches(status, 'a.*') AS r FROM orders
duckdb = FROM orders SELECT status, count(*) AS n GROUP BY status HAVING n > 2
duckdb = SELECT * REPLACE (upper(status) AS status) FROM orders
duckdb ~ SELECT median(amount) AS m, quantile_cont(amount, 0.9) AS q, mode(status) AS o FROM orders
postgres = SELECT DISTINCT ON (customer_id) * FROM orders ORDER BY customer_id, created_at DESC
postgres = SELECT id, generate_series(1, 3) AS g FROM orders
postgres ~ SELECT id, array_to_string(tags, ',') AS t, 'a' = ANY(tags) AS h, cardinality(tags) AS n FROM orders
