//! The social network as a circuit: the same joins as differential dataflow's in `bench/peers/src/snb.rs`.

use anyhow::{Result, bail};
use dbsp::utils::{Tup2, Tup3};

use crate::circuit::{Output, Setup, deliver};
use crate::drive::NULL;
use crate::tally::text;

pub fn build(setup: &mut Setup) -> Result<Output> {
    match setup.spec.workload.as_str() {
        "snb-q4" => q4(setup),
        other => bail!("no circuit is written for {other}"),
    }
}

fn q4(setup: &mut Setup) -> Result<Output> {
    let n = setup.spec.threshold;
    let friends = setup
        .table("knows", ["k_person1id", "k_person2id"], |[one, two]| Tup2(one, two))?
        .filter(move |&Tup2(one, _)| one < n)
        .map(|&Tup2(_, two)| two)
        .distinct()
        .map_index(|&two| (two, ()));
    let messages = setup
        .table("message", ["m_creatorid", "m_messageid", "m_c_replyof"], |[by, key, reply]| Tup3(by, key, reply))?
        .filter(|&Tup3(_, _, reply)| reply == NULL)
        .map_index(|&Tup3(by, key, _)| (by, key));
    let links = setup
        .table("message_tag", ["mt_messageid", "mt_tagid"], |[message, tag]| Tup2(message, tag))?
        .map_index(|&Tup2(message, tag)| (message, tag));
    let tags = setup
        .table("tag", ["t_tagid", "t_name"], |[key, name]| Tup2(key, name))?
        .map_index(|&Tup2(key, name)| (key, name));
    // Every message, link and tag is there once: so is every row.
    let rows = messages
        .join_index(&friends, |_, &key, ()| Some((key, ())))
        .join_index(&links, |&message, (), &tag| Some((tag, message)))
        .join(&tags, |&tag, &message, &name| Tup3(name, tag, message));
    Ok(deliver(&rows, |&Tup3(name, tag, message), f| f(&[text(name), tag, message])))
}
