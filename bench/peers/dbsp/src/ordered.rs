//! Rows in order as circuits: the operators that dbsp has for what comes before a row, over one partition.
//!
//! A moment is its microseconds since 1970, and no two rows of a table have the same.

use std::cmp::Ordering;

use anyhow::{Result, bail};
use dbsp::operator::CmpFunc;
use dbsp::operator::time_series::{RelOffset, RelRange};
use dbsp::utils::{Tup2, Tup3};

use crate::circuit::{Output, Setup, deliver};

pub fn build(setup: &mut Setup) -> Result<Output> {
    match setup.spec.workload.as_str() {
        "ord-lag" => lag(setup),
        "ord-running" => running(setup),
        "ord-top" => top(setup),
        "ord-asof" => asof(setup),
        other => bail!("no circuit is written for {other}"),
    }
}

/// Moment, number and price.
type Trade = Tup3<i64, i64, i64>;

struct ByTime;

impl CmpFunc<Trade> for ByTime {
    fn cmp(left: &Trade, right: &Trade) -> Ordering {
        left.cmp(right)
    }
}

fn lag(setup: &mut Setup) -> Result<Output> {
    let rows = setup
        .table("trades", ["ts", "id", "price"], |[ts, id, price]| Tup3(ts, id, price))?
        .map_index(|row| ((), *row))
        .lag_custom_order::<_, _, _, ByTime, _>(
            1,
            |before| before.map(|row: &Trade| row.2),
            |row, before| Tup2(row.1, before.map_or(0, |price| row.2 - price)),
        )
        .map(|((), row)| *row);
    Ok(deliver(&rows, |&Tup2(id, d), f| f(&[id, d])))
}

/// RANK is how many rows there are so far: a linear aggregate, too.
fn running(setup: &mut Setup) -> Result<Output> {
    let trades = setup.table("trades", ["account", "ts", "id", "price"], |[account, ts, id, price]| {
        Tup2(Tup2(account, ts as u64), Tup2(id, price))
    })?;
    let sums = trades
        .map_index(|&Tup2(Tup2(account, ts), Tup2(_, price))| (ts, Tup2(account, price)))
        .partitioned_rolling_aggregate_linear(
            |&Tup2(account, price)| (account, price),
            |&price| Tup2(price, 1),
            |sums| sums,
            RelRange::new(RelOffset::Before(u64::MAX), RelOffset::Before(0)),
        )
        .map_index(|(&account, &Tup2(ts, sums))| (Tup2(account, ts), sums.unwrap_or(Tup2(0, 0))));
    let rows = trades.map_index(|&Tup2(key, Tup2(id, _))| (key, id)).join(&sums, |_, id, &Tup2(s, r)| Tup3(*id, s, r));
    Ok(deliver(&rows, |&Tup3(id, s, r), f| f(&[id, s, r])))
}

fn top(setup: &mut Setup) -> Result<Output> {
    let rows = setup
        .table("trades", ["price", "id"], |[price, id]| Tup2(price, id))?
        .map_index(|row| ((), *row))
        .topk_asc(100)
        .map(|((), row)| *row);
    Ok(deliver(&rows, |&Tup2(price, id), f| f(&[id, price])))
}

fn asof(setup: &mut Setup) -> Result<Output> {
    let quotes = setup.table("quotes", ["ts", "price"], |[ts, price]| Tup2(ts, price))?.map_index(|row| ((), *row));
    let rows = setup
        .table("trades", ["ts", "id", "price"], |[ts, id, price]| Tup3(ts, id, price))?
        .map_index(|row| ((), *row))
        .asof_join(
            &quotes,
            |(), trade, quote| quote.map(|quote| Tup2(trade.1, trade.2 - quote.1)),
            |trade| trade.0,
            |quote| quote.0,
        )
        .flat_map(|row| *row);
    Ok(deliver(&rows, |&Tup2(id, d), f| f(&[id, d])))
}
