SELECT orders_made, COUNT(*) AS customers
FROM (SELECT c_id, COUNT(o_id) FROM customer
      LEFT OUTER JOIN orders ON c_w_id = o_w_id AND c_d_id = o_d_id AND c_id = o_c_id AND o_carrier_id > 8 GROUP BY c_id) AS made (c_id, orders_made)
GROUP BY orders_made ORDER BY customers DESC, orders_made DESC
