//! What every native engine is asked, and how it is driven over the stream.

use std::io::stdin;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Deserialize;

use crate::stream::{Stream, Update};
use crate::tally;

/// What to run.
#[derive(Clone, Deserialize)]
pub struct Spec {
    /// A name of `bench.subjects.catalogue`.
    pub engine: String,
    /// A name of `bench.cases.workloads`.
    pub workload: String,
    /// The file of updates, see `stream`.
    pub path: String,
    pub batch_rows: usize,
    /// The constant of the query's filter.
    pub threshold: u32,
    /// Updates at the beginning that are warm-up: time counts from there.
    pub warm: usize,
    /// Seconds after which the run is stopped.
    pub bound_s: f64,
    /// Follow count and checksum of the result instead of the time.
    pub check: bool,
}

/// An engine that has been set up: it takes a batch and returns when the deltas of the batch have been counted.
pub trait Engine {
    fn apply(&mut self, batch: &[Update]) -> Result<()>;
}

/// Reads what standard input asks for, and the stream that it names.
pub fn asked() -> Result<(Spec, Stream)> {
    let spec: Spec = serde_json::from_reader(stdin())?;
    let stream = Stream::read(&spec.path)?;
    tally::set_checking(spec.check);
    Ok((spec, stream))
}

/// Drives an engine over the stream, in batches, and says what was measured.
pub fn drive(engine: &mut dyn Engine, stream: &Stream, spec: &Spec) -> Result<()> {
    let mut start = Instant::now();
    let mut warmed = (0, 0);
    let mut said = Instant::now();
    let mut done = 0;
    let mut slowest: Vec<f64> = Vec::new();
    for batch in stream.updates.chunks(spec.batch_rows) {
        let began = Instant::now();
        engine.apply(batch)?;
        slowest.push(began.elapsed().as_secs_f64());
        done += batch.len();
        if warmed.0 == 0 && done >= spec.warm {
            (start, warmed) = (Instant::now(), (done, tally::deltas()));
            slowest.clear();
        }
        if said.elapsed() > Duration::from_secs(1) {
            println!("{}", serde_json::json!({"progress": [done, stream.updates.len()]}));
            said = Instant::now();
        }
        if !spec.check && start.elapsed().as_secs_f64() > spec.bound_s {
            break;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    slowest.sort_by(f64::total_cmp);
    let median = slowest.get(slowest.len() / 2).copied().unwrap_or(0.0);
    println!(
        "{}",
        serde_json::json!({"result": {
            "seconds": seconds, "emitted": done, "warm": warmed.0, "deltas": tally::deltas() - warmed.1,
            "count": tally::count(), "checksum": tally::checksum(), "batch_median_s": median,
        }})
    );
    Ok(())
}
