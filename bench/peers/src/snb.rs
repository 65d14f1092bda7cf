//! The social network in differential dataflow: filters and semi-joins first. Its identifiers need 64 bits.

use anyhow::{Result, bail};

use crate::dataflow::{Setup, distinct};
use crate::drive::NULL;
use crate::tally::text;

pub fn build(setup: &mut Setup) -> Result<()> {
    match setup.spec.workload.as_str() {
        "snb-q4" => q4(setup),
        other => bail!("no dataflow is written for {other}"),
    }
}

fn q4(setup: &mut Setup) -> Result<()> {
    let n = setup.spec.threshold;
    let friends = setup
        .table("knows", ["k_person1id", "k_person2id"], |[one, two]| (one, two))?
        .filter(move |&(one, _)| one < n)
        .map(|(_, two)| two);
    let friends = distinct(friends).arrange_by_self();
    let messages = setup
        .table("message", ["m_creatorid", "m_messageid", "m_c_replyof"], |[by, key, reply]| (by, key, reply))?
        .filter(|&(_, _, reply)| reply == NULL)
        .map(|(by, key, _)| (by, key))
        .arrange_by_key();
    let links =
        setup.table("message_tag", ["mt_messageid", "mt_tagid"], |[message, tag]| (message, tag))?.arrange_by_key();
    let tags = setup.table("tag", ["t_tagid", "t_name"], |[key, name]| (key, name))?.arrange_by_key();
    // Every message, link and tag is there once: so is every row.
    let rows = messages
        .join_core(friends, |_, &key, ()| Some(key))
        .arrange_by_self()
        .join_core(links, |&message, (), &tag| Some((tag, message)))
        .arrange_by_key()
        .join_core(tags, |&tag, &message, &name| Some((name, tag, message)));
    setup.deliver(rows, |&(name, tag, message), f| f(&[text(name), tag, message]));
    Ok(())
}
