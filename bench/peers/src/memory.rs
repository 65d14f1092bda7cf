//! How much memory this process takes, as the system counts it; zero where /proc is not there.

/// Returns the resident bytes.
pub fn resident() -> u64 {
    status("VmRSS:")
}

/// Returns the most resident bytes since the start or `forget_peak`.
pub fn peak() -> u64 {
    status("VmHWM:")
}

/// Counts the peak from now on, where the system allows.
pub fn forget_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

fn status(field: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let found = text.lines().find_map(|line| line.strip_prefix(field)?.split_whitespace().next()?.parse().ok());
    1024 * found.unwrap_or(0u64)
}
