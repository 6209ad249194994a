//! What other documents and programs cite must exist: rules of the specification, and functions of
//! the project.

use std::collections::BTreeSet;
use std::path::Path;

/// Prefixes of the names of rules, as in `ORD-2`.
const RULES: [&str; 19] = [
    "ACC", "BIT", "CSR", "DEL", "DISC", "EXT", "HCS", "INT", "LIT", "MEM", "MSG", "NTF", "ORD",
    "PROP", "SLOT", "TIM", "UER", "VEI", "WIRE",
];

/// Functions of Linux that `docs/interrupts/` names.
const LINUX: [&str; 35] = [
    "handle_edge_irq",
    "handle_fasteoi_irq",
    "irqfd_wakeup",
    "kvm_arch_disable_virtualization_cpu",
    "kvm_arch_set_irq_inatomic",
    "kvm_arch_vcpu_load",
    "kvm_arch_vcpu_put",
    "kvm_arch_vcpu_runnable",
    "kvm_get_vcpu_by_id",
    "kvm_notify_acked_irq",
    "kvm_riscv_vcpu_set_interrupt",
    "kvm_riscv_vcpu_timer_blocking",
    "kvm_riscv_vcpu_timer_pending",
    "kvm_riscv_vcpu_timer_restore",
    "kvm_riscv_vcpu_timer_save",
    "kvm_riscv_vcpu_timer_sync",
    "kvm_riscv_vcpu_vstimer_expired",
    "kvm_riscv_vcpu_wfi",
    "kvm_sbi_ext_ipi_handler",
    "kvm_sched_in",
    "kvm_sched_out",
    "kvm_vcpu_block",
    "kvm_vcpu_halt",
    "kvm_vcpu_kick",
    "kvm_vcpu_wake_up",
    "kvm_vcpu_yield_to",
    "kvm_vm_ioctl_irq_line",
    "riscv_clock_next_event",
    "riscv_intc_irq",
    "riscv_timer_interrupt",
    "sbi_ipi_handle",
    "schedule",
    "try_to_wake_up",
    "vcpu_load",
    "write",
];

/// Calls `see` with the text of each file below `folder` that has one of the endings.
fn each_text(folder: &Path, endings: &[&str], see: &mut dyn FnMut(&Path, &str)) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                each_text(&path, endings, see);
            }
        } else if let Some(ending) = path.extension().and_then(|e| e.to_str()) {
            if endings.contains(&ending) {
                see(&path, &std::fs::read_to_string(&path).unwrap_or_default());
            }
        }
    }
}

/// Names of rules that occur in a text.
fn rules_in(text: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    text.split(|c| !is_name(c))
        .filter(|word| {
            word.split_once('-').is_some_and(|(prefix, number)| {
                RULES.contains(&prefix)
                    && number.bytes().all(|b| b.is_ascii_digit())
                    && !number.is_empty()
            })
        })
        .collect()
}

#[test]
fn cited_rules_exist_and_are_defined_once() {
    let root = crate::root();
    let mut defined = BTreeSet::new();
    each_text(&root.join("spec/chapters"), &["adoc"], &mut |path, text| {
        for line in text.lines() {
            // "[[ORD-2]]`ORD-2` (post, then look):: ..." or ".LIT-1: title"
            let head = if let Some(title) = line.strip_prefix(".LIT") {
                line.get(1..1 + 3 + title.find(':').unwrap_or(0))
            } else if line.starts_with("[[") && line.contains("::") {
                line.split('`').nth(1)
            } else {
                None
            };
            for rule in head.map(rules_in).unwrap_or_default() {
                assert!(
                    defined.insert(rule.to_string()),
                    "{rule} is defined twice, {path:?}"
                );
            }
        }
    });
    assert!(defined.len() > 60, "rules are not recognized: {defined:?}");
    let endings = ["rs", "c", "h", "md", "adoc", "litmus", "cat", "bell"];
    for folder in ["crates", "linux", "vmm/src", "docs", "spec"] {
        each_text(&root.join(folder), &endings, &mut |path, text| {
            for rule in rules_in(text) {
                assert!(
                    defined.contains(rule),
                    "{path:?} cites {rule}, which does not exist"
                );
            }
        });
    }
}

#[test]
fn functions_in_the_descriptions_exist() {
    let root = crate::root();
    let mut sources = String::new();
    for folder in ["crates/intc/src", "crates/hart/src", "linux", "vmm/src"] {
        each_text(
            &root.join(folder),
            &["rs", "c", "h", "patch"],
            &mut |_, text| {
                sources.push_str(text);
            },
        );
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words: BTreeSet<&str> = sources.split(|c| !is_name(c)).collect();
    let mut names = 0;
    each_text(&root.join("docs/interrupts"), &["md"], &mut |path, text| {
        let mut cited: Vec<&str> = text
            .split(|c| !is_name(c))
            .filter(|word| word.contains("trapless_"))
            .collect();
        cited.extend(
            text.match_indices("()`")
                .filter_map(|(end, _)| text[..end].rsplit(|c| !is_name(c)).next()),
        );
        for name in cited {
            names += 1;
            assert!(
                words.contains(name) || LINUX.contains(&name),
                "{path:?} names {name}, which is neither in the project nor known to be in Linux"
            );
        }
    });
    assert!(names > 40, "names are not recognized");
}

/// Promise: scripts of images look for extensions under the names that device trees have.
#[test]
fn extensions_that_scripts_look_for_exist() {
    let root = crate::root();
    let registers = ["registers.toml", "haiov.toml"]
        .map(|name| std::fs::read_to_string(root.join("spec").join(name)).unwrap());
    let mut names = 0;
    for folder in ["images/init", "images/tests"] {
        for script in std::fs::read_dir(root.join(folder)).unwrap().flatten() {
            let text = std::fs::read_to_string(script.path()).unwrap_or_default();
            for rest in text.split("has_extension ").skip(1) {
                let name = rest.split(|c: char| !c.is_ascii_alphanumeric()).next();
                let name = name.filter(|name| *name != "NAME").unwrap_or_default();
                names += usize::from(!name.is_empty());
                let quoted = format!("\"{name}\"");
                assert!(
                    name.is_empty() || registers.iter().any(|text| text.contains(&quoted)),
                    "{:?} looks for {name}, which no specification names",
                    script.path()
                );
            }
        }
    }
    assert!(names > 3, "names are not recognized");
}
