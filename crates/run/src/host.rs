//! What ledgers say of the computer on which a run was made.

use std::time::{Duration, SystemTime};

use trapless_ledger::document::HostInfo;

/// Description in the ledger of the computer on which `instructions` took `seconds`.
pub fn host_info(started: SystemTime, seconds: f64, instructions: u64) -> HostInfo {
    HostInfo {
        wall_seconds: seconds,
        instructions_per_second: (seconds > 0.0).then(|| instructions as f64 / seconds),
        resumed_at: None,
        started: Some(timestamp(started)),
        processor: processor(),
    }
}

/// UTC in the form of RFC 3339, to the second.
fn timestamp(time: SystemTime) -> String {
    let seconds = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
        .to_string()
}

/// Name of the computer's processor, by `/proc/cpuinfo`.
fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|l| l.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().into())
}
