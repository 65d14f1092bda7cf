with signed as (
    select entries.id, entries.account_id, entries.day, accounts.kind, accounts.code, coalesce(entries.department, 'none') as department,
        coalesce(entries.debit, 0) - coalesce(entries.credit, 0) as amount
    from entries join accounts on accounts.id = entries.account_id
), adjusted as (
    select *, case when kind = 'revenue' then -amount else amount end as adjusted from signed
)
select md5(cast(id as varchar) || '-' || code || '-' || department) as ledger_key, account_id, day, code, kind, department, amount, adjusted,
    sum(adjusted) over (partition by account_id order by day, id rows unbounded preceding) as running_balance
from adjusted where day is not null
