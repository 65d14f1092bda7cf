WITH revenue (supplier_no, total) AS (
  SELECT MOD(s_w_id * s_i_id, 10000), SUM(ol_amount) FROM orderline, stock
  WHERE ol_i_id = s_i_id AND ol_supply_w_id = s_w_id AND ol_delivery_d >= TIMESTAMP '2007-01-02 00:00:00' GROUP BY MOD(s_w_id * s_i_id, 10000))
SELECT su_suppkey, su_name, su_address, su_phone, total FROM supplier, revenue
WHERE su_suppkey = supplier_no AND total = (SELECT MAX(total) FROM revenue) ORDER BY su_suppkey
