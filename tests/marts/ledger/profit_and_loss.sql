select accounts.kind, entries.department, cast(date_trunc('month', entries.day) as date) as month,
    sum(case when accounts.kind = 'revenue' then coalesce(entries.credit, 0) - coalesce(entries.debit, 0)
        else coalesce(entries.debit, 0) - coalesce(entries.credit, 0) end) as amount,
    count(*) as entries, string_agg(distinct entries.source, ',' order by entries.source) as sources
from entries join accounts on accounts.id = entries.account_id
where accounts.kind in ('revenue', 'expense')
group by cube (accounts.kind, entries.department), cast(date_trunc('month', entries.day) as date)
