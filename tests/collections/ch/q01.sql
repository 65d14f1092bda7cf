SELECT ol_number, SUM(ol_quantity) AS quantity, SUM(ol_amount) AS amount, AVG(ol_quantity) AS mean_quantity, AVG(ol_amount) AS mean_amount, COUNT(*) AS lines
FROM orderline WHERE ol_delivery_d > TIMESTAMP '2007-01-02 00:00:00' GROUP BY ol_number ORDER BY ol_number
