//! TPC-H in differential dataflow, as its authors write it: filters first, then the joins from the smallest relation on.
//!
//! Sums are kept in multiplicities: a line counts its revenue, in ten-thousandths, many times. No revenue is zero, so
//! that a group is there as long as its sum is not zero.

use anyhow::{Result, bail};
use differential_dataflow::operators::CountTotal;
use differential_dataflow::operators::arrange::{Arranged, TraceAgent};
use differential_dataflow::trace::implementations::ValSpine;

use crate::dataflow::{Rows, Setup};
use crate::drive::small;
use crate::tally::text;

type Index<'s, K, V> = Arranged<'s, TraceAgent<ValSpine<K, V, u64, isize>>>;

pub fn build(setup: &mut Setup) -> Result<()> {
    match setup.spec.workload.as_str() {
        "agg-tpch-q3" => q3(setup),
        "agg-tpch-q5" => q5(setup),
        "agg-tpch-q10" => q10(setup),
        other => bail!("no dataflow is written for {other}"),
    }
}

fn q3(setup: &mut Setup) -> Result<()> {
    let building = setup.spec.literal("BUILDING")?;
    let day = setup.spec.literal("1995-03-15")? as i32;
    let customers = setup
        .table("customer", ["c_custkey", "c_mktsegment"], |[key, segment]| (small(key), segment))?
        .filter(move |&(_, segment)| segment == building)
        .map(|(key, _)| key)
        .arrange_by_self();
    let columns = ["o_custkey", "o_orderkey", "o_orderdate", "o_shippriority"];
    let orders = setup
        .table("orders", columns, |[of, key, date, priority]| (small(of), (small(key), date as i32, priority as i32)))?
        .filter(move |&(_, (_, date, _))| date < day)
        .arrange_by_key();
    let columns = ["l_orderkey", "l_extendedprice", "l_discount", "l_shipdate"];
    let lines = setup
        .table("lineitem", columns, |[of, price, discount, day]| (small(of), price * (100 - discount), day as i32))?
        .explode(move |(of, revenue, shipped)| (shipped > day).then_some((of, revenue as isize)))
        .arrange_by_self();
    let rows = orders
        .join_core(customers, |_, &(key, date, priority), ()| Some((key, (date, priority))))
        .arrange_by_key()
        .join_core(lines, |&key, &(date, priority), ()| Some((key, date, priority)))
        .count_total();
    setup.deliver(rows, |&((key, date, priority), revenue), f| {
        f(&[key as i64, revenue as i64, date as i64, priority as i64])
    });
    Ok(())
}

fn q5(setup: &mut Setup) -> Result<()> {
    let asia = setup.spec.literal("ASIA")?;
    let first = setup.spec.literal("1994-01-01")? as i32;
    let last = setup.spec.literal("1995-01-01")? as i32;
    let regions = setup
        .table("region", ["r_regionkey", "r_name"], |[key, name]| (small(key), name))?
        .filter(move |&(_, name)| name == asia)
        .map(|(key, _)| key)
        .arrange_by_self();
    let nations: Index<'_, u32, i64> = setup
        .table("nation", ["n_regionkey", "n_nationkey", "n_name"], |[of, key, name]| (small(of), (small(key), name)))?
        .arrange_by_key()
        .join_core(regions, |_, &(key, name), ()| Some((key, name)))
        .arrange_by_key();
    // A supplier is asked for with the nation that the customer has.
    let suppliers = setup
        .table("supplier", ["s_nationkey", "s_suppkey"], |[of, key]| (small(of), small(key)))?
        .arrange_by_key()
        .join_core(nations.clone(), |&nation, &key, &name| Some(((key, nation), name)))
        .arrange_by_key();
    let customers = setup
        .table("customer", ["c_nationkey", "c_custkey"], |[of, key]| (small(of), small(key)))?
        .arrange_by_key()
        .join_core(nations, |&nation, &key, _| Some((key, nation)))
        .arrange_by_key();
    let orders = setup
        .table("orders", ["o_custkey", "o_orderkey", "o_orderdate"], |[of, key, date]| {
            (small(of), small(key), date as i32)
        })?
        .filter(move |&(_, _, date)| first <= date && date < last)
        .map(|(of, key, _)| (of, key))
        .arrange_by_key()
        .join_core(customers, |_, &key, &nation| Some((key, nation)))
        .arrange_by_key();
    let columns = ["l_orderkey", "l_suppkey", "l_extendedprice", "l_discount"];
    let lines = setup
        .table("lineitem", columns, |[of, by, price, discount]| (small(of), small(by), price * (100 - discount)))?
        .explode(|(of, by, revenue)| Some(((of, by), revenue as isize)))
        .arrange_by_key();
    let rows = orders
        .join_core(lines, |_, &nation, &by| Some((by, nation)))
        .arrange_by_self()
        .join_core(suppliers, |_, (), &name| Some(name))
        .count_total();
    setup.deliver(rows, |&(name, revenue), f| f(&[text(name), revenue as i64]));
    Ok(())
}

/// What the query returns of a customer: name, balance, nation's name, address, phone and comment.
type Customer = (i64, i64, i64, i64, i64, i64);

fn q10(setup: &mut Setup) -> Result<()> {
    let returned = setup.spec.literal("R")?;
    let first = setup.spec.literal("1993-10-01")? as i32;
    let last = setup.spec.literal("1994-01-01")? as i32;
    let nations = setup.table("nation", ["n_nationkey", "n_name"], |[key, name]| (small(key), name))?.arrange_by_key();
    let columns = ["c_nationkey", "c_custkey", "c_name", "c_acctbal", "c_address", "c_phone", "c_comment"];
    let customers: Rows<'_, (u32, Customer)> = setup
        .table("customer", columns, |[of, key, name, balance, address, phone, comment]| {
            (small(of), (small(key), name, balance, address, phone, comment))
        })?
        .arrange_by_key()
        .join_core(nations, |_, &(key, name, balance, address, phone, comment), &nation| {
            Some((key, (name, balance, nation, address, phone, comment)))
        });
    let orders = setup
        .table("orders", ["o_orderkey", "o_custkey", "o_orderdate"], |[key, of, date]| {
            (small(key), small(of), date as i32)
        })?
        .filter(move |&(_, _, date)| first <= date && date < last)
        .map(|(key, of, _)| (key, of))
        .arrange_by_key();
    let columns = ["l_orderkey", "l_extendedprice", "l_discount", "l_returnflag"];
    let lines = setup
        .table("lineitem", columns, |[of, price, discount, flag]| (small(of), price * (100 - discount), flag))?
        .explode(move |(of, revenue, flag)| (flag == returned).then_some((of, revenue as isize)))
        .arrange_by_self();
    // The key of a customer decides all that is grouped by: sums are by key, and find the rest afterwards.
    let rows = orders
        .join_core(lines, |_, &of, ()| Some(of))
        .count_total()
        .arrange_by_key()
        .join_core(customers.arrange_by_key(), |&key, &revenue, &customer| Some((key, revenue, customer)));
    setup.deliver(rows, |&(key, revenue, (name, balance, nation, address, phone, comment)), f| {
        let texts = [nation, address, phone, comment].map(text);
        f(&[key as i64, text(name), revenue as i64, balance, texts[0], texts[1], texts[2], texts[3]])
    });
    Ok(())
}
