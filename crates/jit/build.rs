//! Sets `cfg(compiler)` if code can be compiled for the host, and the feature `no-compiler` is not
//! set.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(compiler)");
    let target = |what| env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    let known = match target("ARCH").as_str() {
        "x86_64" => target("FAMILY").contains("unix"),
        "aarch64" => target("OS") == "linux",
        _ => false,
    };
    if known && env::var_os("CARGO_FEATURE_NO_COMPILER").is_none() {
        println!("cargo::rustc-cfg=compiler");
    }
}
