//! Interrupt files as rows.

use super::super::file::InterruptFile;
use super::Imsics;
use crate::inspect::{Part, Row};

impl Imsics {
    pub(in super::super) fn inspect(&self, rows: &mut Vec<Row>) {
        for (number, hart) in self.harts.iter().enumerate() {
            file(&hart.machine, Part::new(rows, Some(number), "imsic M"));
            for (index, own) in hart.supervisor.iter().enumerate() {
                let name = match index {
                    0 => "imsic S".into(),
                    guest => format!("imsic guest {guest}"),
                };
                file(own, Part::new(rows, Some(number), name));
            }
        }
    }
}

fn file(file: &InterruptFile, mut part: Part<'_>) {
    part.set("pending", file.pending());
    part.set("enabled", file.enabled());
    let on = file.delivers();
    part.row(on, "delivery", if on { "on" } else { "off" });
    let threshold = file.threshold();
    part.row(threshold != 0, "threshold", threshold.to_string());
    let raised = match file.top() {
        top if file.raised() => format!("yes, by {top}"),
        _ => "no".into(),
    };
    part.row(file.raised(), "raised", raised);
}
