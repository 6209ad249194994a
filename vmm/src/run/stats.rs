//! Statistics for `--stats`.

use crate::irqchip::injections::Injections;
use crate::kvm::exit::Counts;
use serde_json::{Value, json};

/// All statistics.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Per vCPU.
    pub vcpus: Vec<Counts>,
    /// Names of the bus slots.
    pub slots: Vec<String>,
    /// The guest's interrupt controller, by its name in `--irqchip`.
    pub irqchip: &'static str,
    /// How the VMM interrupted the guest.
    pub injections: Injections,
    /// How often the guest was restarted.
    pub reboots: u64,
}

impl Stats {
    /// The JSON text.
    pub fn json(&self) -> String {
        format!("{:#}\n", self.value())
    }

    /// The statistics as a JSON value.
    pub fn value(&self) -> Value {
        let vcpus: Vec<Value> = self
            .vcpus
            .iter()
            .map(|counts| counts.json(&self.slots))
            .collect();
        json!({
            "schema": "trapless-vmm-stats-1",
            "vcpus": vcpus,
            "external_interrupts": self.injections.lines_json(),
            "irqchip": self.irqchip,
            "injections": self.injections.json(),
            "interrupt_system_calls": self.injections.system_calls_json(),
            "reboots": self.reboots,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kvm::exit::Reason;

    #[test]
    fn statistics_name_devices_and_add_up() {
        let mut counts = Counts::default();
        counts.add(Reason::MmioWrite(1));
        counts.add(Reason::MmioWrite(1));
        let mut all = counts.clone();
        all.merge(&counts);
        all.add(Reason::Sbi(0x4442_434e));
        let stats = Stats {
            vcpus: vec![all],
            slots: vec!["plic".into(), "uart".into()],
            ..Stats::default()
        };
        let value: Value = serde_json::from_str(&stats.json()).unwrap();
        assert_eq!(value["vcpus"][0]["exits"]["mmio_write:uart"], 4);
        assert_eq!(value["vcpus"][0]["exits"]["sbi:0x4442434e"], 1);
        assert_eq!(value["vcpus"][0]["total"], 5);
    }
}
