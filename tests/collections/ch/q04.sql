SELECT o_ol_cnt, COUNT(*) AS orders FROM orders
WHERE o_entry_d >= TIMESTAMP '2007-01-02 00:00:00' AND o_entry_d < TIMESTAMP '2012-01-02 00:00:00'
  AND EXISTS (SELECT * FROM orderline WHERE o_id = ol_o_id AND o_w_id = ol_w_id AND o_d_id = ol_d_id AND ol_delivery_d >= o_entry_d)
GROUP BY o_ol_cnt ORDER BY o_ol_cnt
