//! TPC-H as circuits: the same joins as differential dataflow's in `bench/peers/src/tpch.rs`, in the same order.

use anyhow::{Result, bail};
use dbsp::utils::{Tup2, Tup3, Tup4, Tup6, Tup7, Tup8};

use crate::circuit::{Output, Setup, deliver};
use crate::drive::small;
use crate::tally::text;

pub fn build(setup: &mut Setup) -> Result<Output> {
    match setup.spec.workload.as_str() {
        "agg-tpch-q3" => q3(setup),
        "agg-tpch-q5" => q5(setup),
        "agg-tpch-q10" => q10(setup),
        other => bail!("no circuit is written for {other}"),
    }
}

fn q3(setup: &mut Setup) -> Result<Output> {
    let building = setup.spec.literal("BUILDING")?;
    let day = setup.spec.literal("1995-03-15")? as i32;
    let customers = setup
        .table("customer", ["c_custkey", "c_mktsegment"], |[key, segment]| Tup2(small(key), segment))?
        .filter(move |&Tup2(_, segment)| segment == building)
        .map_index(|&Tup2(key, _)| (key, ()));
    let columns = ["o_custkey", "o_orderkey", "o_orderdate", "o_shippriority"];
    let orders = setup
        .table("orders", columns, |[of, key, date, priority]| {
            Tup4(small(of), small(key), date as i32, priority as i32)
        })?
        .filter(move |&Tup4(_, _, date, _)| date < day)
        .map_index(|&Tup4(of, key, date, priority)| (of, Tup3(key, date, priority)));
    let columns = ["l_orderkey", "l_extendedprice", "l_discount", "l_shipdate"];
    let lines = setup
        .table("lineitem", columns, |[of, price, discount, day]| Tup3(small(of), price * (100 - discount), day as i32))?
        .filter(move |&Tup3(_, _, shipped)| shipped > day)
        .map_index(|&Tup3(of, revenue, _)| (of, revenue));
    let rows = orders
        .join_index(&customers, |_, &Tup3(key, date, priority), ()| Some((key, Tup2(date, priority))))
        .join_index(&lines, |&key, &Tup2(date, priority), &revenue| Some((Tup3(key, date, priority), revenue)))
        .aggregate_linear(|&revenue| revenue)
        .map(|(&Tup3(key, date, priority), &revenue)| Tup4(key, revenue, date, priority));
    Ok(deliver(&rows, |&Tup4(key, revenue, date, priority), f| f(&[key as i64, revenue, date as i64, priority as i64])))
}

fn q5(setup: &mut Setup) -> Result<Output> {
    let asia = setup.spec.literal("ASIA")?;
    let first = setup.spec.literal("1994-01-01")? as i32;
    let last = setup.spec.literal("1995-01-01")? as i32;
    let regions = setup
        .table("region", ["r_regionkey", "r_name"], |[key, name]| Tup2(small(key), name))?
        .filter(move |&Tup2(_, name)| name == asia)
        .map_index(|&Tup2(key, _)| (key, ()));
    let nations = setup
        .table("nation", ["n_regionkey", "n_nationkey", "n_name"], |[of, key, name]| Tup3(small(of), small(key), name))?
        .map_index(|&Tup3(of, key, name)| (of, Tup2(key, name)))
        .join_index(&regions, |_, &Tup2(key, name), ()| Some((key, name)));
    // A supplier is asked for with the nation that the customer has.
    let suppliers = setup
        .table("supplier", ["s_nationkey", "s_suppkey"], |[of, key]| Tup2(small(of), small(key)))?
        .map_index(|&Tup2(of, key)| (of, key))
        .join_index(&nations, |&nation, &key, &name| Some((Tup2(key, nation), name)));
    let customers = setup
        .table("customer", ["c_nationkey", "c_custkey"], |[of, key]| Tup2(small(of), small(key)))?
        .map_index(|&Tup2(of, key)| (of, key))
        .join_index(&nations, |&nation, &key, _| Some((key, nation)));
    let orders = setup
        .table("orders", ["o_custkey", "o_orderkey", "o_orderdate"], |[of, key, date]| {
            Tup3(small(of), small(key), date as i32)
        })?
        .filter(move |&Tup3(_, _, date)| first <= date && date < last)
        .map_index(|&Tup3(of, key, _)| (of, key))
        .join_index(&customers, |_, &key, &nation| Some((key, nation)));
    let columns = ["l_orderkey", "l_suppkey", "l_extendedprice", "l_discount"];
    let lines = setup
        .table("lineitem", columns, |[of, by, price, discount]| Tup3(small(of), small(by), price * (100 - discount)))?
        .map_index(|&Tup3(of, by, revenue)| (of, Tup2(by, revenue)));
    let rows = orders
        .join_index(&lines, |_, &nation, &Tup2(by, revenue)| Some((Tup2(by, nation), revenue)))
        .join_index(&suppliers, |_, &revenue, &name| Some((name, revenue)))
        .aggregate_linear(|&revenue| revenue)
        .map(|(&name, &revenue)| Tup2(name, revenue));
    Ok(deliver(&rows, |&Tup2(name, revenue), f| f(&[text(name), revenue])))
}

fn q10(setup: &mut Setup) -> Result<Output> {
    let returned = setup.spec.literal("R")?;
    let first = setup.spec.literal("1993-10-01")? as i32;
    let last = setup.spec.literal("1994-01-01")? as i32;
    let nations = setup
        .table("nation", ["n_nationkey", "n_name"], |[key, name]| Tup2(small(key), name))?
        .map_index(|&Tup2(key, name)| (key, name));
    let columns = ["c_nationkey", "c_custkey", "c_name", "c_acctbal", "c_address", "c_phone", "c_comment"];
    let customers = setup
        .table("customer", columns, |[of, key, name, balance, address, phone, comment]| {
            Tup7(small(of), small(key), name, balance, address, phone, comment)
        })?
        .map_index(|&Tup7(of, key, name, balance, address, phone, comment)| {
            (of, Tup6(key, name, balance, address, phone, comment))
        })
        .join_index(&nations, |_, &Tup6(key, name, balance, address, phone, comment), &nation| {
            Some((key, Tup6(name, balance, nation, address, phone, comment)))
        });
    let orders = setup
        .table("orders", ["o_orderkey", "o_custkey", "o_orderdate"], |[key, of, date]| {
            Tup3(small(key), small(of), date as i32)
        })?
        .filter(move |&Tup3(_, _, date)| first <= date && date < last)
        .map_index(|&Tup3(key, of, _)| (key, of));
    let columns = ["l_orderkey", "l_extendedprice", "l_discount", "l_returnflag"];
    let lines = setup
        .table("lineitem", columns, |[of, price, discount, flag]| Tup3(small(of), price * (100 - discount), flag))?
        .filter(move |&Tup3(_, _, flag)| flag == returned)
        .map_index(|&Tup3(of, revenue, _)| (of, revenue));
    // The key of a customer decides all that is grouped by: sums are by key, and find the rest afterwards.
    let rows = orders
        .join_index(&lines, |_, &of, &revenue| Some((of, revenue)))
        .aggregate_linear(|&revenue| revenue)
        .join(&customers, |&key, &revenue, &Tup6(name, balance, nation, address, phone, comment)| {
            Tup8(key, revenue, name, balance, nation, address, phone, comment)
        });
    Ok(deliver(&rows, |&Tup8(key, revenue, name, balance, nation, address, phone, comment), f| {
        let texts = [nation, address, phone, comment].map(text);
        f(&[key as i64, text(name), revenue, balance, texts[0], texts[1], texts[2], texts[3]])
    }))
}
