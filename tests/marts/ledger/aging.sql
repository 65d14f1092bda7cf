with paid as (
    select invoice_id, sum(amount) as paid, max(day) as latest from receipts group by 1
), open_invoices as (
    select invoices.id, invoices.customer_id, invoices.due, invoices.amount - coalesce(paid.paid, 0) as outstanding,
        date_diff('day', invoices.due, date '2024-03-01') as days_late
    from invoices left join paid on paid.invoice_id = invoices.id
    where invoices.status <> 'void'
)
select customer_id,
    sum(case when days_late <= 0 then outstanding else 0 end) as not_due,
    sum(case when days_late between 1 and 30 then outstanding else 0 end) as up_to_30,
    sum(case when days_late > 30 then outstanding else 0 end) as over_30,
    sum(outstanding) as outstanding,
    max(days_late) as latest,
    cast(sum(outstanding) as double) / nullif(cast(sum(sum(outstanding)) over () as double), 0) as share
from open_invoices where outstanding > 0 group by customer_id
