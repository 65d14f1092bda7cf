//! What comes out: how many delta rows there were and, when checking, count and checksum of the result.
//!
//! The checksum is that of `bench.cases.checksum`: `h = (sum of value * factor) mod p` per row, rows add up `h * h mod p`.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

const PRIME: i64 = 2_147_483_629;
const FACTORS: [i64; 10] = [1, 65599, 131071, 24036583, 6972593, 859433, 1257787, 3021377, 43112609, 16785407];

static DELTAS: AtomicI64 = AtomicI64::new(0);
static COUNT: AtomicI64 = AtomicI64::new(0);
static CHECKSUM: AtomicI64 = AtomicI64::new(0);
static CHECKING: AtomicBool = AtomicBool::new(false);

pub fn set_checking(checking: bool) {
    CHECKING.store(checking, Relaxed);
}

/// Counts one delta row.
#[inline]
pub fn row(values: &[i64], weight: i64) {
    DELTAS.store(DELTAS.load(Relaxed) + 1, Relaxed);
    if CHECKING.load(Relaxed) {
        let sum: i64 = values.iter().zip(FACTORS).map(|(v, f)| v.rem_euclid(PRIME) * f).sum();
        let h = sum % PRIME;
        COUNT.store(COUNT.load(Relaxed) + weight, Relaxed);
        CHECKSUM.store(CHECKSUM.load(Relaxed) + weight * (h * h % PRIME), Relaxed);
    } else {
        // The values must be there, or the compiler would leave out what makes them.
        std::hint::black_box(values);
    }
}

/// Returns what the checksum takes of a text: its length, which the lower half of its word has.
#[inline]
pub fn text(word: i64) -> i64 {
    word & 0xffff_ffff
}

pub fn deltas() -> i64 {
    DELTAS.load(Relaxed)
}

pub fn count() -> i64 {
    COUNT.load(Relaxed)
}

pub fn checksum() -> i64 {
    CHECKSUM.load(Relaxed)
}
