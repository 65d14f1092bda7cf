//! Differential dataflow over the streams of `crown bench`: one workload, one stream.
//!
//! Standard input brings one JSON object, `Spec`. Standard output is JSON lines: `{"progress": [done, of]}` and, last,
//! `{"result": {...}}`. It runs on one worker; a process that is pinned to a core stays there.

mod dataflows;
mod delta_queries;
mod drive;
mod stream;
mod tally;

use anyhow::{Result, bail};

fn main() -> Result<()> {
    let (spec, stream) = drive::asked()?;
    match spec.engine.as_str() {
        "dd" | "dd-delta" => dataflows::run(spec, stream),
        other => bail!("no engine is called {other}"),
    }
}
