select charges.customer_id,
    count(distinct charges.id) as charges,
    count(distinct disputes.id) as disputes,
    coalesce(sum(disputes.amount), 0) as disputed,
    bool_or(coalesce(disputes.reason, 'other') = 'fraud') as fraud,
    max(disputes.opened) as latest
from charges left join disputes on disputes.charge_id = charges.id
where charges.customer_id in (select customer_id from charges where status = 'succeeded')
group by charges.customer_id
having count(disputes.id) > 0 or count(*) > 2
