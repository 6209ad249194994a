//! The date that a machine's real-time clock shows at power-on.

use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// No date from 2500 on, in seconds since 1970: nanoseconds since 1970 have 64 bits.
const END: u64 = 16_725_225_600;

/// Value of `--rtc`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rtc {
    /// The date of this computer.
    Now,
    /// This one, in seconds since 1970.
    At(u64),
}

impl FromStr for Rtc {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "now" {
            return Ok(Self::Now);
        }
        let midnight = format!("{text}T00:00:00Z");
        let wrong = || {
            format!(
                "{text} is not a date from 1970 to 2499; write now, or UTC as in 2026-11-26 or \
                 2026-11-26T12:00:00"
            )
        };
        let date = humantime::parse_rfc3339_weak(text)
            .or_else(|_| humantime::parse_rfc3339_weak(&midnight))
            .map_err(|_| wrong())?;
        let epoch = Some(seconds(date)).filter(|&epoch| epoch < END);
        Ok(Self::At(epoch.ok_or_else(wrong)?))
    }
}

/// The date of this computer in seconds since 1970.
pub fn now() -> u64 {
    seconds(SystemTime::now())
}

fn seconds(date: SystemTime) -> u64 {
    date.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_days_or_seconds_in_utc() {
        assert_eq!("now".parse(), Ok(Rtc::Now));
        assert_eq!("1970-01-02".parse(), Ok(Rtc::At(86_400)));
        assert_eq!("2025-01-01".parse(), Ok(Rtc::At(1_735_689_600)));
        for text in ["2025-01-01T00:00:07Z", "2025-01-01 00:00:07"] {
            assert_eq!(text.parse(), Ok(Rtc::At(1_735_689_607)), "{text}");
        }
        for wrong in [
            "",
            "today",
            "2025-13-01",
            "12:00",
            "1735689600",
            "2025-01-01T25:00:00",
            "2500-01-01",
        ] {
            let error = wrong.parse::<Rtc>().expect_err("it is no date");
            assert!(error.contains("write now, or UTC"), "{error}");
        }
    }
}
