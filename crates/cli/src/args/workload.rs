//! Options that say which workload is run, and how.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use trapless_experiments::Value;
use trapless_machine::preset::Size;
use trapless_run::plan::Consoles;
use trapless_run::spec::{OwnKernels, Vmm, WorkloadSpec};
use trapless_run::{Plan, Trapless};

use super::machine::{MachineArgs, setting};

/// Options of `run` and `compare`.
#[derive(Args, Clone)]
pub struct WorkloadArgs {
    /// Workload; `trapless workloads` lists them. Or a file of your own, as in `./mine.toml`.
    #[arg(long, short, value_name = "NAME")]
    pub workload: String,
    /// Set a parameter of the workload, or of the machine `aia` (`aia.guests=3`). Repeat for more.
    #[arg(long = "set", short = 's', value_name = "NAME=VALUE", value_parser = setting)]
    pub parameters: Vec<(String, Value)>,
    /// Number of vCPUs [default: what the workload says].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=512))]
    pub guest_harts: Option<u32>,
    /// Number of harts of the machine [default: what the workload says].
    #[arg(long, value_name = "N")]
    pub host_harts: Option<u32>,
    /// VMM in the host.
    #[arg(long, value_enum, default_value_t)]
    pub vmm: VmmName,
    /// Show the host's console.
    #[arg(long)]
    pub console: bool,
    /// Give up after this much virtual time.
    #[arg(long, default_value_t = WorkloadSpec::TIME_LIMIT, value_name = "SECONDS")]
    pub time_limit: u64,
    /// Boot even if the cache has a checkpoint of the start of the measured part, and keep none.
    #[arg(long)]
    pub no_checkpoint: bool,
    /// Maximum disk space for checkpoints that runs keep in the cache; 0 for none [default: 8G, or
    /// a quarter of the free space if that is less].
    #[arg(
        long,
        value_name = "SIZE",
        env = "TRAPLESS_CHECKPOINTS",
        hide_env_values = true
    )]
    pub checkpoint_cache: Option<Size>,
    #[command(flatten)]
    pub kernels: KernelArgs,
    #[command(flatten)]
    pub machine_options: MachineArgs,
}

/// A VMM in the host.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum VmmName {
    #[default]
    Trapless,
    Qemu,
}

/// Kernels of the user's own.
#[derive(Args, Clone, Default, Debug)]
pub struct KernelArgs {
    /// Kernel of the host (Image or vmlinuz, plain or gzip) instead of Debian's.
    #[arg(long, value_name = "FILE", help_heading = "Kernels of your own")]
    pub host_kernel: Option<PathBuf>,
    /// Folder with the modules of that kernel: /lib/modules/RELEASE, or where modules_install or a
    /// package has put it [default: none; all that the workload needs is part of the kernel].
    #[arg(
        long,
        value_name = "DIR",
        requires = "host_kernel",
        help_heading = "Kernels of your own"
    )]
    pub host_modules: Option<PathBuf>,
    /// Kernel of guests instead of Debian's.
    #[arg(long, value_name = "FILE", help_heading = "Kernels of your own")]
    pub guest_kernel: Option<PathBuf>,
    /// Folder with the modules of the guests' kernel, as --host-modules.
    #[arg(
        long,
        value_name = "DIR",
        requires = "guest_kernel",
        help_heading = "Kernels of your own"
    )]
    pub guest_modules: Option<PathBuf>,
}

impl KernelArgs {
    fn kernels(&self) -> OwnKernels {
        let Self {
            host_kernel,
            host_modules,
            guest_kernel,
            guest_modules,
        } = self.clone();
        OwnKernels {
            host_kernel,
            host_modules,
            guest_kernel,
            guest_modules,
        }
    }
}

impl WorkloadArgs {
    /// The workload that these options describe.
    pub fn spec(&self) -> WorkloadSpec {
        WorkloadSpec {
            workload: self.workload.clone(),
            settings: self.parameters.iter().cloned().collect(),
            guest_harts: self.guest_harts,
            host_harts: self.host_harts,
            vmm: match self.vmm {
                VmmName::Trapless => Vmm::Trapless,
                VmmName::Qemu => Vmm::Qemu,
            },
            time_limit: self.time_limit,
            kernels: self.kernels.kernels(),
            options: self.machine_options.options(),
        }
    }

    /// The prepared workload, with checkpoints and consoles as these options say.
    ///
    /// # Errors
    /// If an option or an image cannot be used.
    pub fn plan(&self, trapless: &Trapless, consoles: Consoles) -> Result<Plan> {
        let mut plan = Plan::new(&self.spec(), trapless)?;
        if !self.no_checkpoint {
            plan.keep_checkpoints(self.checkpoint_cache.map(|size| size.0));
        }
        if self.console {
            plan.show_consoles(consoles);
        }
        Ok(plan)
    }
}
