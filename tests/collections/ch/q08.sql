SELECT EXTRACT(YEAR FROM o_entry_d) AS year, SUM(CASE WHEN n2.n_name = 'Germany' THEN ol_amount ELSE 0 END) / SUM(ol_amount) AS share
FROM item, supplier, stock, orderline, orders, customer, nation n1, nation n2, region
WHERE i_id = s_i_id AND ol_i_id = s_i_id AND ol_supply_w_id = s_w_id AND MOD(s_w_id * s_i_id, 10000) = su_suppkey AND ol_w_id = o_w_id
  AND ol_d_id = o_d_id AND ol_o_id = o_id AND c_id = o_c_id AND c_w_id = o_w_id AND c_d_id = o_d_id
  AND n1.n_nationkey = ASCII(SUBSTR(c_state, 1, 1)) AND n1.n_regionkey = r_regionkey AND ol_i_id < 1000 AND r_name = 'Europe'
  AND su_nationkey = n2.n_nationkey AND o_entry_d BETWEEN TIMESTAMP '2007-01-02 00:00:00' AND TIMESTAMP '2012-01-02 00:00:00'
  AND i_data LIKE '%b' AND i_id = ol_i_id
GROUP BY EXTRACT(YEAR FROM o_entry_d) HAVING SUM(ol_amount) <> 0 ORDER BY year
