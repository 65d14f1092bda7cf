with statuses as (
    select ticket_id, value as status, happened_at from changes where field = 'status' and value is not null
), spans as (
    select ticket_id, status, happened_at as valid_from,
        lead(happened_at) over (partition by ticket_id order by happened_at, status) as valid_to,
        lag(status) over (partition by ticket_id order by happened_at, status) as previous_status
    from statuses
)
select md5(cast(ticket_id as varchar) || '-' || coalesce(cast(valid_from as varchar), '') || '-' || status) as span_key,
    ticket_id, status, previous_status, valid_from, coalesce(valid_to, timestamp '9999-12-31 00:00:00') as valid_to,
    valid_to is null as is_current,
    date_diff('minute', valid_from, valid_to) as minutes
from spans
where status is distinct from previous_status
