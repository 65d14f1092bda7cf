"""Queries as people of each community write them: dashboards, funnels, cohorts, sessions, marts, Nexmark, finance."""

from __future__ import annotations

TABLES = {
    "orders": {
        "id": "int64", "customer_id": "int64", "amount": "decimal(12,2)", "status": "string",
        "created_at": "timestamp_ntz", "tags": "list<string>", "props": "string",
    },
    "customers": {"id": "int64", "name": "string", "email": "string", "country": "string", "signup": "date"},
    "items": {"order_id": "int64", "product_id": "int64", "qty": "int64", "price": "double"},
    "products": {"id": "int64", "name": "string", "category": "string", "parent": "int64"},
    "events": {"user_id": "int64", "name": "string", "ts": "timestamp_ntz", "url": "string", "payload": "string"},
    "subs": {"sub_id": "int64", "plan": "string", "valid_from": "date", "valid_to": "date", "mrr": "decimal(10,2)"},
    "payments": {
        "id": "int64", "order_id": "int64", "method": "string", "amount": "decimal(12,2)",
        "paid_at": "timestamp_ntz",
    },
    "bid": {"auction": "int64", "bidder": "int64", "price": "int64", "datetime": "timestamp_ntz"},
    "auction": {
        "id": "int64", "itemname": "string", "seller": "int64", "category": "int64",
        "datetime": "timestamp_ntz", "expires": "timestamp_ntz",
    },
    "person": {"id": "int64", "name": "string", "city": "string", "state": "string", "datetime": "timestamp_ntz"},
    "trades": {"sym": "string", "ts": "timestamp_ntz", "px": "double", "qty": "int64", "side": "string"},
    "quotes": {"sym": "string", "ts": "timestamp_ntz", "bid": "double", "ask": "double"},
}  # fmt: skip
QUERIES: tuple[tuple[str, str, str], ...] = (
    ("postgres", "WITH source AS (SELECT * FROM customers), renamed AS (SELECT id AS customer_id, "
     "split_part(name, ' ', 1) AS first_name, lower(trim(email)) AS email, coalesce(nullif(country, "
     "''), 'unknown') AS country FROM source) SELECT * FROM renamed", ""),
    ("postgres", "SELECT c.id, c.name, min(o.created_at)::date AS first_order, max(o.created_at)::date AS "
     "most_recent_order, count(o.id) AS number_of_orders, coalesce(sum(p.amount), 0) AS "
     "lifetime_value FROM customers c LEFT JOIN orders o ON o.customer_id = c.id LEFT JOIN payments "
     "p ON p.order_id = o.id GROUP BY c.id, c.name", ""),
    ("postgres", "SELECT order_id, sum(CASE WHEN method = 'credit_card' THEN amount ELSE 0 END) AS "
     "credit_card_amount, sum(CASE WHEN method = 'coupon' THEN amount ELSE 0 END) AS coupon_amount, "
     "sum(amount) AS total_amount FROM payments GROUP BY order_id", ""),
    ("postgres", "WITH cohort AS (SELECT customer_id, date_trunc('month', min(created_at)) AS cohort_month FROM "
     "orders GROUP BY customer_id) SELECT cohort_month, (extract(year FROM age(date_trunc('month', "
     "o.created_at), cohort_month)) * 12 + extract(month FROM age(date_trunc('month', o.created_at), "
     "cohort_month)))::int AS month_no, count(DISTINCT o.customer_id) AS customers FROM orders o "
     "JOIN cohort USING (customer_id) GROUP BY 1, 2", ""),
    ("postgres", "SELECT country, count(*) AS n, 100.0 * count(*)::float8 / sum(count(*)) OVER () AS pct FROM "
     "customers GROUP BY country", ""),
    ("postgres", "WITH ranked AS (SELECT *, row_number() OVER (PARTITION BY email ORDER BY signup DESC, id) AS "
     "rn FROM customers) SELECT id, email FROM ranked WHERE rn = 1", ""),
    ("postgres", "SELECT user_id, count(*) FILTER (WHERE name = 'view') AS views, count(*) FILTER (WHERE name = "
     "'cart') AS carts, count(*) FILTER (WHERE name = 'purchase') AS purchases, bool_or(name = "
     "'purchase') AS converted FROM events GROUP BY user_id", ""),
    ("postgres", "WITH steps AS (SELECT user_id, min(ts) FILTER (WHERE name = 'view') AS t1, min(ts) FILTER "
     "(WHERE name = 'cart') AS t2, min(ts) FILTER (WHERE name = 'purchase') AS t3 FROM events GROUP "
     "BY user_id) SELECT count(t1) AS step1, count(*) FILTER (WHERE t2 > t1) AS step2, count(*) "
     "FILTER (WHERE t3 > t2 AND t2 > t1) AS step3 FROM steps", ""),
    ("postgres",
     "SELECT payload::jsonb ->> 'page' AS page, (payload::jsonb ->> 'ms')::int AS ms, count(*) FROM events WHERE "
     "payload::jsonb ? 'page' GROUP BY 1, 2",
     "SELECT payload->>'page', (payload->>'ms')::INT, count(*) FROM events WHERE json_exists(payload, '$.page') "
     "GROUP BY 1, 2"),
    ("postgres", "SELECT o.id, extract(epoch FROM o.created_at - lag(o.created_at) OVER w)::float8 AS "
     "since_last, sum(o.amount) OVER w AS running FROM orders o WINDOW w AS (PARTITION BY "
     "customer_id ORDER BY created_at, id)", ""),
    ("postgres", "SELECT d.day::date, coalesce(sum(o.amount), 0) AS revenue FROM "
     "generate_series('2024-01-01'::timestamp, '2024-01-10'::timestamp, '1 day') AS d(day) LEFT JOIN "
     "orders o ON date_trunc('day', o.created_at) = d.day GROUP BY 1", ""),
    ("postgres", "SELECT customer_id, array_agg(DISTINCT status ORDER BY status) AS statuses, "
     "string_agg(id::text, ',' ORDER BY id) AS ids, (array_agg(amount ORDER BY created_at DESC, "
     "id))[1] AS last_amount FROM orders GROUP BY customer_id", ""),
    ("postgres", "SELECT s.plan, sum(s.mrr) AS mrr FROM subs s WHERE DATE '2024-06-30' BETWEEN s.valid_from AND "
     "coalesce(s.valid_to, DATE '9999-12-31') GROUP BY s.plan", ""),
    ("postgres", "SELECT c.country, percentile_cont(0.5) WITHIN GROUP (ORDER BY o.amount::float8) AS median FROM "
     "orders o JOIN customers c ON c.id = o.customer_id GROUP BY c.country", ""),
    ("postgres",
     "SELECT id, (SELECT json_agg(json_build_object('product', i.product_id, 'qty', i.qty) ORDER BY i.product_id, "
     "i.qty) FROM items i WHERE i.order_id = o.id) AS lines FROM orders o",
     "SELECT id, (SELECT '[' || string_agg('{\"product\":' || product_id || ',\"qty\":' || qty || '}', ',' "
     "ORDER BY product_id, qty) || ']' FROM items i WHERE i.order_id = o.id) FROM orders o"),
    ("postgres", "SELECT p.id, p.name, t.qty FROM products p LEFT JOIN LATERAL (SELECT sum(qty) AS qty FROM "
     "items i WHERE i.product_id = p.id) t ON true", ""),
    ("postgres", "SELECT id, status FROM orders WHERE status = ANY (ARRAY['paid', 'shipped']) AND customer_id <> "
     "ALL (ARRAY[1, 2])", ""),
    ("postgres", "SELECT u.id, u.name FROM customers u WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE "
     "o.customer_id = u.id AND o.created_at > u.signup + interval '30 days')", ""),
    ("postgres",
     "SELECT to_char(created_at, 'YYYY-\"W\"IW') AS week, to_char(sum(amount), 'FM999,999,990.00') AS total FROM "
     "orders GROUP BY 1",
     "SELECT strftime(created_at, '%G-W%V'), format('{:,.2f}', sum(amount)::DOUBLE) FROM orders GROUP BY 1"),
    ("postgres",
     "SELECT id, jsonb_typeof(props::jsonb -> 'a') AS ty, jsonb_array_length(props::jsonb -> 'b') AS n, "
     "props::jsonb #>> '{c,d}' AS d FROM orders WHERE props LIKE '{%'",
     "SELECT id, CASE json_type(props, '$.a') WHEN 'VARCHAR' THEN 'string' WHEN 'UBIGINT' THEN 'number' END, CASE "
     "json_type(props, '$.b') WHEN 'ARRAY' THEN json_array_length(props, '$.b') END, props->>'$.c.d' FROM orders "
     "WHERE props LIKE '{%'"),
    ("postgres",
     "SELECT e.name, k.key, count(*) FROM events e, jsonb_each_text(e.payload::jsonb) k GROUP BY 1, 2",
     "SELECT name, k, count(*) FROM (SELECT name, unnest(json_keys(payload)) AS k FROM events) GROUP BY 1, 2"),
    ("duckdb", "SELECT strftime(created_at, '%Y-%m') AS month, sum(amount) AS revenue, revenue - lag(revenue) "
     "OVER (ORDER BY month) AS change FROM orders GROUP BY month", ""),
    ("duckdb", "FROM events SELECT user_id, name, count(*) AS n, min(ts) AS first, max(ts) AS last GROUP BY ALL "
     "HAVING n > 1", ""),
    ("duckdb", "WITH gaps AS (SELECT user_id, ts, CASE WHEN ts - lag(ts) OVER (PARTITION BY user_id ORDER BY ts) "
     "> INTERVAL 30 MINUTE THEN 1 ELSE 0 END AS new_session FROM events), s AS (SELECT user_id, ts, "
     "sum(new_session) OVER (PARTITION BY user_id ORDER BY ts) AS session FROM gaps) SELECT user_id, "
     "session, count(*) AS hits, epoch(max(ts) - min(ts)) AS len FROM s GROUP BY user_id, session", ""),
    ("duckdb", "SELECT sym, time_bucket(INTERVAL '5 minutes', ts) AS bar, arg_min(px, ts) AS open, max(px) AS "
     "high, min(px) AS low, arg_max(px, ts) AS close, sum(qty) AS volume, sum(px * qty) / sum(qty) AS "
     "vwap FROM trades GROUP BY ALL", ""),
    ("duckdb", "SELECT t.sym, t.ts, t.px, (q.bid + q.ask) / 2 AS mid FROM trades t ASOF JOIN quotes q ON t.sym = "
     "q.sym AND t.ts >= q.ts", ""),
    ("duckdb", "SELECT sym, ts, px, avg(px) OVER (PARTITION BY sym ORDER BY ts ROWS BETWEEN 4 PRECEDING AND "
     "CURRENT ROW) AS ma5, px / first_value(px) OVER (PARTITION BY sym ORDER BY ts) - 1 AS ret FROM "
     "trades", ""),
    ("duckdb", "SELECT payload->>'$.page' AS page, count(*) AS n FROM events WHERE json_valid(payload) GROUP BY 1", ""),
    ("duckdb", "SELECT * EXCLUDE (props, tags), list_aggregate(tags, 'count') AS n_tags, upper(status) AS "
     "status_up FROM orders", ""),
    ("duckdb", "SELECT * REPLACE (round(price, 1) AS price) FROM items", ""),
    ("duckdb", "PIVOT payments ON method IN ('card', 'cash') USING sum(amount) GROUP BY order_id", ""),
    ("duckdb", "SELECT unnest(tags) AS tag, count(DISTINCT customer_id) AS customers FROM orders GROUP BY tag", ""),
    ("duckdb", "SELECT customer_id, list(struct_pack(id := id, amount := amount) ORDER BY created_at DESC, "
     "id)[1:3] AS last3 FROM orders GROUP BY customer_id", ""),
    ("duckdb", "SELECT orders.id, created_at, date_diff('day', signup, created_at::DATE) AS days FROM orders "
     "SEMI JOIN items ON items.order_id = orders.id JOIN customers c ON c.id = orders.customer_id", ""),
    ("duckdb", "SELECT customer_id, max(created_at) AS last, date_diff('day', max(created_at), TIMESTAMP "
     "'2024-07-01') AS recency, ntile(4) OVER (ORDER BY max(created_at), customer_id) AS r FROM orders "
     "GROUP BY customer_id", ""),
    ("duckdb", "SELECT category, quantile_cont(price, [0.25, 0.5, 0.75]) AS q, stddev(price) AS sd, mad(price) "
     "FROM items JOIN products ON products.id = product_id GROUP BY category", ""),
    ("snowflake", "SELECT id, email FROM customers QUALIFY ROW_NUMBER() OVER (PARTITION BY LOWER(email) ORDER BY "
     "signup DESC NULLS LAST, id) = 1", ""),
    ("snowflake",
     "SELECT user_id, ts, CONDITIONAL_TRUE_EVENT(DATEDIFF('minute', LAG(ts) OVER (PARTITION BY user_id ORDER BY "
     "ts), ts) > 30) OVER (PARTITION BY user_id ORDER BY ts) AS session_no FROM events",
     "SELECT user_id, ts, sum(CASE WHEN gap > 30 THEN 1 ELSE 0 END) OVER (PARTITION BY user_id ORDER BY ts ROWS "
     "UNBOUNDED PRECEDING) FROM (SELECT *, date_diff('minute', lag(ts) OVER (PARTITION BY user_id ORDER BY ts), "
     "ts) AS gap FROM events)"),
    ("snowflake",
     "SELECT sub_id, plan, CONDITIONAL_CHANGE_EVENT(plan) OVER (PARTITION BY sub_id ORDER BY valid_from) AS "
     "change_no FROM subs",
     "SELECT sub_id, plan, sum(CASE WHEN plan <> before THEN 1 ELSE 0 END) OVER (PARTITION BY sub_id ORDER BY "
     "valid_from ROWS UNBOUNDED PRECEDING) FROM (SELECT *, lag(plan) OVER (PARTITION BY sub_id ORDER BY "
     "valid_from) AS before FROM subs)"),
    ("snowflake",
     "SELECT PARSE_JSON(payload):page::STRING AS page, PARSE_JSON(payload):user.id::NUMBER AS uid, "
     "TRY_TO_NUMBER(PARSE_JSON(payload):ms::STRING) AS ms FROM events",
     "SELECT payload->>'page', (payload->>'$.user.id')::DECIMAL(38, 0), (payload->>'ms')::DECIMAL(38, 0) FROM "
     "events"),
    ("snowflake",
     "SELECT e.user_id, f.key, f.value::STRING AS v FROM events e, LATERAL FLATTEN(input => PARSE_JSON(e.payload)) "
     "f",
     "SELECT user_id, k, json_extract_string(payload, '$.' || k) FROM (SELECT user_id, payload, "
     "unnest(json_keys(payload)) AS k FROM events)"),
    ("snowflake",
     "SELECT TO_CHAR(created_at, 'YYYY-MM') AS m, SUM(IFF(status = 'paid', amount, 0)) AS paid, "
     "DIV0(SUM(IFF(status = 'refund', amount, 0)), SUM(amount))::DOUBLE AS refund_rate, COUNT_IF(amount > 100) AS "
     "big FROM orders GROUP BY ALL",
     "SELECT strftime(created_at, '%Y-%m'), sum(CASE WHEN status = 'paid' THEN amount ELSE 0 END), "
     "coalesce(sum(CASE WHEN status = 'refund' THEN amount ELSE 0 END) / nullif(sum(amount), 0), 0)::DOUBLE, "
     "count_if(amount > 100) FROM orders GROUP BY 1"),
    ("snowflake",
     "SELECT customer_id, OBJECT_AGG(status, n::VARIANT) AS by_status FROM (SELECT customer_id, status, COUNT(*) "
     "AS n FROM orders WHERE status IS NOT NULL GROUP BY 1, 2) GROUP BY customer_id",
     "SELECT customer_id, '{' || string_agg(pair, ',' ORDER BY pair) || '}' FROM (SELECT customer_id, '\"' "
     "|| status || '\":' || count(*) AS pair FROM orders WHERE status IS NOT NULL GROUP BY customer_id, status) "
     "GROUP BY customer_id"),
    ("snowflake", "SELECT MD5(CONCAT_WS('-', COALESCE(CAST(id AS VARCHAR), '_null_'), COALESCE(status, "
     "'_null_'))) AS sk, DATEADD('day', -1, LEAD(created_at) OVER (PARTITION BY customer_id ORDER "
     "BY created_at)) AS valid_to FROM orders", ""),
    ("snowflake", "SELECT ARRAY_SIZE(tags) AS n, ARRAY_CONTAINS('a'::VARIANT, tags) AS has_a, "
     "ARRAY_TO_STRING(tags, '|') AS s FROM orders", ""),
    ("snowflake", "SELECT DATE_TRUNC('week', created_at) AS w, APPROX_COUNT_DISTINCT(customer_id) AS c, "
     "MEDIAN(amount::DOUBLE) AS med, LISTAGG(DISTINCT status, ', ') WITHIN GROUP (ORDER BY status) "
     "AS st FROM orders GROUP BY 1", ""),
    ("snowflake", "SELECT name FROM customers WHERE email ILIKE ANY ('%@gmail.com', '%@yahoo.%') AND name NOT "
     "LIKE ALL ('bot%', 'test%')", ""),
    ("snowflake", "SELECT * FROM (SELECT order_id, method, amount FROM payments) PIVOT (SUM(amount) FOR method "
     "IN ('card', 'cash')) AS p (order_id, card, cash)", ""),
    ("bigquery", "SELECT FORMAT_DATE('%Y-%m', DATE(created_at)) AS month, COUNT(DISTINCT customer_id) AS buyers, "
     "CAST(SAFE_DIVIDE(SUM(amount), COUNT(DISTINCT customer_id)) AS FLOAT64) AS arpu FROM orders "
     "GROUP BY month", ""),
    ("bigquery",
     "SELECT user_id, ARRAY_AGG(STRUCT(name, url) ORDER BY ts LIMIT 5) AS path FROM events GROUP BY user_id",
     "SELECT user_id, list_slice(list({'name': name, 'url': url} ORDER BY ts), 1, 5) FROM events GROUP BY user_id"),
    ("bigquery",
     "SELECT user_id, name, TIMESTAMP_DIFF(ts, LAG(ts) OVER (PARTITION BY user_id ORDER BY ts), SECOND) AS secs "
     "FROM events",
     "SELECT user_id, name, date_sub('second', lag(ts) OVER (PARTITION BY user_id ORDER BY ts), ts) FROM events"),
    ("bigquery", "SELECT JSON_VALUE(payload, '$.page') AS page, JSON_EXTRACT_SCALAR(payload, '$.ref') AS ref, "
     "COUNT(*) AS n FROM events WHERE REGEXP_CONTAINS(url, r'^https?://') GROUP BY 1, 2", ""),
    ("bigquery", "SELECT day, COUNT(o.id) AS n FROM UNNEST(GENERATE_DATE_ARRAY('2024-01-01', '2024-01-05', "
     "INTERVAL 1 DAY)) AS day LEFT JOIN orders o ON DATE(o.created_at) = day GROUP BY day", ""),
    ("bigquery", "SELECT id, (SELECT STRING_AGG(t, '/' ORDER BY t) FROM UNNEST(tags) AS t WHERE t != 'x') AS "
     "path, ARRAY_LENGTH(tags) AS n, EXISTS (SELECT 1 FROM UNNEST(tags) AS t WHERE t = 'a') AS has_a "
     "FROM orders", ""),
    ("bigquery", "SELECT * FROM customers WHERE TRUE QUALIFY RANK() OVER (PARTITION BY country ORDER BY signup "
     "DESC) <= 3", ""),
    ("bigquery",
     "SELECT DATE_TRUNC(DATE(created_at), ISOWEEK) AS w, COUNTIF(status = 'paid') / COUNT(*) AS rate, "
     "LOGICAL_OR(amount > 1000) AS any_big FROM orders GROUP BY w",
     "SELECT date_trunc('week', created_at)::DATE, (count(*) FILTER (WHERE status = 'paid')) / count(*), "
     "bool_or(amount > 1000) FROM orders GROUP BY 1"),
    ("bigquery", "SELECT IF(REGEXP_CONTAINS(email, r'@gmail\\.com$'), 'gmail', 'other') AS kind, COUNT(*) AS n "
     "FROM customers GROUP BY kind", ""),
    ("spark",
     "SELECT user_id, name, from_json(payload, 'page STRING, ms INT').ms AS ms, date_format(ts, 'yyyy-MM-dd "
     "HH:00') AS hour FROM events",
     "SELECT user_id, name, (payload->>'ms')::INT, strftime(ts, '%Y-%m-%d %H:00') FROM events"),
    ("spark",
     "SELECT o.id, tag, pos FROM orders o LATERAL VIEW OUTER posexplode(tags) t AS pos, tag",
     "SELECT id, unnest(tags), unnest(range(len(tags))) FROM orders UNION ALL SELECT id, NULL, NULL FROM orders "
     "WHERE len(tags) = 0"),
    ("spark",
     "SELECT order_id, stack(2, 'qty', cast(qty AS double), 'price', price) AS (metric, value) FROM items",
     "SELECT order_id, 'qty', qty::DOUBLE FROM items UNION ALL SELECT order_id, 'price', price FROM items"),
    ("spark",
     "SELECT window.start AS ws, name, count(DISTINCT user_id) AS users FROM events GROUP BY window(ts, '1 hour'), "
     "name",
     "SELECT time_bucket(INTERVAL 1 HOUR, ts), name, count(DISTINCT user_id) FROM events GROUP BY 1, 2"),
    ("databricks",
     "SELECT payload:page AS page, payload:user.id::int AS uid, count(*) AS n FROM events GROUP BY ALL",
     "SELECT payload->>'page', (payload->>'$.user.id')::INT, count(*) FROM events GROUP BY 1, 2"),
    ("spark",
     "SELECT c.country, sort_array(collect_set(o.status)) AS statuses, array_join(collect_list(o.status), ',') IS "
     "NOT NULL AS any FROM orders o JOIN customers c ON o.customer_id = c.id GROUP BY c.country",
     "SELECT country, coalesce(list_sort(list(DISTINCT o.status) FILTER (WHERE o.status IS NOT NULL)), []), true "
     "FROM orders o JOIN customers c ON o.customer_id = c.id GROUP BY country"),
    ("flink",
     "SELECT bidder, COUNT(*) AS bid_count, TUMBLE_START(`datetime`, INTERVAL '10' SECOND) AS starttime FROM bid "
     "GROUP BY bidder, TUMBLE(`datetime`, INTERVAL '10' SECOND)",
     "SELECT bidder, count(*), time_bucket(INTERVAL 10 SECOND, datetime) FROM bid GROUP BY 1, 3"),
    ("flink",
     "SELECT P.name, P.city, P.state, A.id FROM auction AS A INNER JOIN person AS P ON A.seller = P.id WHERE "
     "A.category = 10 AND (P.state = 'OR' OR P.state = 'ID')",
     "SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p ON a.seller = p.id WHERE a.category = 10 "
     "AND p.state IN ('OR', 'ID')"),
    ("flink",
     "SELECT Q.category, AVG(Q.final) AS price FROM (SELECT MAX(B.price) AS final, A.category FROM auction A, bid "
     "B WHERE A.id = B.auction AND B.`datetime` BETWEEN A.`datetime` AND A.expires GROUP BY A.id, A.category) Q "
     "GROUP BY Q.category",
     "SELECT category, avg(final) FROM (SELECT max(b.price) AS final, a.category FROM auction a, bid b WHERE a.id "
     "= b.auction AND b.datetime BETWEEN a.datetime AND a.expires GROUP BY a.id, a.category) GROUP BY category"),
    ("flink",
     "SELECT auction, num FROM (SELECT auction, COUNT(*) AS num, window_start FROM TABLE(HOP(TABLE bid, "
     "DESCRIPTOR(`datetime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND)) GROUP BY auction, window_start) WHERE "
     "num >= 2",
     "SELECT auction, num FROM (SELECT auction, count(*) AS num FROM bid, range(5) AS r(k) GROUP BY auction, "
     "time_bucket(INTERVAL 2 SECOND, datetime) - k * INTERVAL 2 SECOND) WHERE num >= 2"),
    ("flink",
     "SELECT auction, bidder, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, "
     "`datetime` ASC) AS rownum FROM bid) WHERE rownum <= 1",
     "SELECT auction, bidder, price FROM bid QUALIFY row_number() OVER (PARTITION BY auction ORDER BY price DESC, "
     "datetime) <= 1"),
    ("flink",
     "SELECT DATE_FORMAT(`datetime`, 'yyyy-MM-dd') AS `day`, COUNT(*) AS total_bids, COUNT(*) FILTER (WHERE price "
     "< 10000) AS rank1_bids, COUNT(DISTINCT bidder) AS total_bidders FROM bid GROUP BY DATE_FORMAT(`datetime`, "
     "'yyyy-MM-dd')",
     "SELECT strftime(datetime, '%Y-%m-%d'), count(*), count(*) FILTER (WHERE price < 10000), count(DISTINCT "
     "bidder) FROM bid GROUP BY 1"),
    ("trino", "SELECT customer_id, array_join(array_agg(DISTINCT status ORDER BY status), ',') AS st FROM orders "
     "WHERE status IS NOT NULL GROUP BY customer_id", ""),
    ("trino", "SELECT o.id, t.tag FROM orders o CROSS JOIN UNNEST(o.tags) AS t (tag) WHERE cardinality(o.tags) > "
     "1", ""),
    ("trino", "SELECT json_extract_scalar(payload, '$.page') AS page, count_if(name = 'view') AS views, "
     "try_cast(json_extract_scalar(payload, '$.ms') AS integer) AS ms FROM events GROUP BY 1, 3", ""),
    ("trino", "SELECT date_trunc('hour', ts) AS h, count(*) AS n, count(DISTINCT user_id) AS u, max_by(url, ts) "
     "AS last_url FROM events GROUP BY 1", ""),
    ("mysql", "SELECT DATE_FORMAT(created_at, '%Y-%m') AS m, COUNT(*) AS n, GROUP_CONCAT(DISTINCT status ORDER "
     "BY status SEPARATOR '|') AS st, IFNULL(SUM(amount), 0) AS total FROM orders GROUP BY m", ""),
    ("mysql", "SELECT DATE_FORMAT(created_at, '%W %e %M %Y %H:%i') AS t, DATEDIFF(created_at, '2024-01-01') AS "
     "d, TIMESTAMPDIFF(MONTH, '2024-01-01', created_at) AS mo FROM orders", ""),
    ("mysql",
     "SELECT customer_id, JSON_ARRAYAGG(status) AS a, JSON_OBJECTAGG(id, status) AS o FROM orders GROUP BY "
     "customer_id",
     "SELECT customer_id, '[' || string_agg(s, ',' ORDER BY s) || ']', '{' || string_agg('\"' || id || "
     "'\":' || s, ',' ORDER BY '\"' || id || '\":' || s) || '}' FROM (SELECT *, coalesce('\"' || status || "
     "'\"', 'null') AS s FROM orders) GROUP BY customer_id"),
    ("mysql",
     "SELECT id, JSON_UNQUOTE(JSON_EXTRACT(props, '$.a')) AS a, props->>'$.b' AS b, JSON_CONTAINS(props, '1', "
     "'$.c') AS c FROM orders",
     "SELECT id, props->>'a', props->>'b', json_contains(props->'c', '1')::INT FROM orders"),
    ("mysql", "SELECT c.name, SUM(IF(o.status = 'paid', o.amount, 0)) AS paid, SUM(o.status = 'refund') AS "
     "refunds FROM customers c JOIN orders o ON o.customer_id = c.id GROUP BY c.name HAVING refunds > 0", ""),
    ("mysql",
     "SELECT WEEK(created_at, 3) AS w, YEARWEEK(created_at, 3) AS yw, SUBSTRING_INDEX(status, '-', 1) AS s, "
     "LAST_DAY(created_at) AS l FROM orders",
     "SELECT week(created_at), isoyear(created_at) * 100 + week(created_at), split_part(status, '-', 1), "
     "last_day(created_at) FROM orders"),
    ("clickhouse",
     "SELECT toDate(ts) AS day, uniq(user_id) AS users, countIf(name = 'purchase') AS buys, round(buys / users, 3) "
     "AS cr FROM events GROUP BY day",
     "SELECT ts::DATE, count(DISTINCT user_id) AS users, count_if(name = 'purchase') AS buys, round(buys / users, "
     "3) FROM events GROUP BY 1"),
    ("clickhouse",
     "SELECT toStartOfInterval(ts, INTERVAL 15 MINUTE) AS b, name, count() AS c FROM events GROUP BY b, name",
     "SELECT time_bucket(INTERVAL 15 MINUTE, ts), name, count(*) FROM events GROUP BY 1, 2"),
    ("clickhouse",
     "SELECT user_id, argMax(url, ts) AS last_url, arraySort(groupUniqArray(name)) AS names, "
     "quantile(0.9)(length(url)) AS q FROM events GROUP BY user_id",
     "SELECT user_id, arg_max(url, ts), list(DISTINCT name ORDER BY name), quantile_cont(length(url), 0.9) FROM "
     "events GROUP BY user_id"),
    ("clickhouse",
     "SELECT id, addDays(created_at, 7) AS due, dateDiff('day', created_at, addMonths(created_at, 1)) AS days, "
     "arrayMap(t -> upper(t), tags) AS up, arraySum(arrayMap(t -> length(t), tags)) AS n, has(tags, 'a') AS h FROM "
     "orders",
     "SELECT id, created_at + INTERVAL 7 DAY, date_diff('day', created_at, created_at + INTERVAL 1 MONTH), "
     "list_transform(tags, lambda t: upper(t)), coalesce(list_sum(list_transform(tags, lambda t: length(t))), 0), "
     "list_contains(tags, 'a') FROM orders"),
    ("clickhouse",
     "SELECT tag, count() AS c FROM orders ARRAY JOIN tags AS tag GROUP BY tag",
     "SELECT tag, count(*) FROM (SELECT unnest(tags) AS tag FROM orders) GROUP BY tag"),
    ("clickhouse",
     "SELECT JSONExtractString(payload, 'page') AS page, JSONExtractInt(payload, 'ms') AS ms, formatDateTime(ts, "
     "'%Y-%m-%d') AS d FROM events",
     "SELECT coalesce(payload->>'page', ''), coalesce((payload->>'ms')::BIGINT, 0), strftime(ts, '%Y-%m-%d') FROM "
     "events"),
    ("clickhouse",
     "SELECT id, arrayFilter(t -> t != 'a', tags) AS f, arrayExists(t -> t = 'b', tags) AS e, "
     "arrayStringConcat(tags, ',') AS j, length(tags) AS n, empty(tags) AS em FROM orders",
     "SELECT id, list_filter(tags, lambda t: t <> 'a'), list_contains(tags, 'b'), array_to_string(tags, ','), "
     "len(tags), len(tags) = 0 FROM orders"),
    ("tsql", "SELECT c.country, COUNT_BIG(*) AS n, STRING_AGG(c.name, ', ') WITHIN GROUP (ORDER BY c.name) AS "
     "names FROM customers c GROUP BY c.country", ""),
    ("tsql", "SELECT o.id, ISNULL(o.status, 'none') AS status, DATEDIFF(day, c.signup, o.created_at) AS days, "
     "EOMONTH(o.created_at) AS eom, FORMAT(o.created_at, 'yyyy-MM') AS ym FROM orders o INNER JOIN "
     "customers c ON c.id = o.customer_id", ""),
    ("tsql",
     "SELECT c.id, x.total FROM customers c CROSS APPLY (SELECT SUM(o.amount) AS total FROM orders o WHERE "
     "o.customer_id = c.id) x",
     "SELECT c.id, x.total FROM customers c, LATERAL (SELECT sum(o.amount) AS total FROM orders o WHERE "
     "o.customer_id = c.id) x"),
    ("tsql", "SELECT id, IIF(amount > 100, 'big', 'small') AS size, CONVERT(date, created_at) AS d, CASE WHEN "
     "status IN ('a', 'b') THEN 1 ELSE 0 END AS f FROM orders", ""),
    ("redshift", "SELECT DATE_TRUNC('day', ts) AS d, COUNT(DISTINCT user_id) AS dau, SUM(COUNT(DISTINCT "
     "user_id)) OVER (ORDER BY DATE_TRUNC('day', ts) ROWS 6 PRECEDING) AS w FROM events GROUP BY 1", ""),
    ("redshift", "SELECT user_id, LISTAGG(name, '>') WITHIN GROUP (ORDER BY ts) AS path, MIN(ts) AS t0, "
     "DATEDIFF(hour, MIN(ts), MAX(ts)) AS hrs FROM events GROUP BY user_id", ""),
    ("redshift", "SELECT NVL2(status, 1, 0) AS f, DECODE(status, 'paid', 'P', 'open', 'O', '?') AS c FROM orders", ""),
)  # fmt: skip
"""Their dialects, and what DuckDB is asked instead: nothing if it reads the query, as sqlglot translates it."""
