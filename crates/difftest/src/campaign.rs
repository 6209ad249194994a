//! Runs many programs on the subject and the references, compares, shrinks and reports.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde::Serialize;

use crate::coverage::Coverage;
use crate::families::{self, Family};
use crate::program::Program;
use crate::verdict::{Models, Verdict};
use crate::{report, shrink};

/// Programs to run.
pub struct Campaign {
    /// Seeds, or the first one if there is no end.
    pub seeds: std::ops::Range<u64>,
    /// Families to draw from.
    pub families: Vec<&'static Family>,
    /// Models that run them.
    pub models: Models,
    /// Programs run at the same time.
    pub jobs: usize,
    /// Whether to reduce failing programs.
    pub shrink: bool,
    /// Folder for failing programs and reports.
    pub out: PathBuf,
    /// Stop after this many failures (0: never).
    pub max_failures: u64,
}

/// Totals of a campaign, as `--json` writes them.
#[derive(Default, Serialize)]
pub struct Summary {
    /// Name of the model under test.
    pub subject: String,
    /// Names of the references.
    pub references: Vec<String>,
    /// Programs without a difference.
    pub passed: u64,
    /// Programs with a difference or without an outcome.
    pub failed: u64,
    /// Programs that no reference supports.
    pub skipped: u64,
    /// Failing programs: family, seed, and the difference.
    pub failures: Vec<(String, u64, String)>,
    /// Coverage of the programs.
    pub coverage: Coverage,
}

impl Campaign {
    fn fail(&self, program: &Program, verdict: &Verdict, scratch: &Path) -> (String, String) {
        let mut program = program.clone();
        let mut verdict = verdict.clone();
        if self.shrink {
            shrink::shrink(&self.models, &mut program, &mut verdict, scratch);
        }
        let text = report::failure(&self.models, &program, &verdict, scratch);
        let name = format!("{}-{}", program.family, program.seed);
        let written = std::fs::create_dir_all(&self.out)
            .and_then(|()| std::fs::write(self.out.join(format!("{name}.elf")), program.elf()))
            .and_then(|()| std::fs::write(self.out.join(format!("{name}.txt")), &text));
        if let Err(e) = written {
            eprintln!("cannot write to {}: {e}", self.out.display());
        }
        (text, report::one_line(&self.models, &verdict))
    }

    /// Runs everything; `progress` is called for each failure (with its report) and each finished
    /// program.
    pub fn run(&self, progress: &(dyn Fn(Progress<'_>) + Sync)) -> Result<Summary, String> {
        let root = scratch_root()?;
        let next = AtomicU64::new(self.seeds.start);
        let stop = AtomicBool::new(false);
        let summary = Mutex::new(Summary {
            subject: self.models.subject.name(),
            references: self.models.references.iter().map(|r| r.name()).collect(),
            ..Summary::default()
        });
        std::thread::scope(|scope| {
            for job in 0..self.jobs {
                let (root, next, stop, summary) = (&root, &next, &stop, &summary);
                scope.spawn(move || {
                    let scratch = root.join(job.to_string());
                    let _ = std::fs::create_dir_all(&scratch);
                    while !stop.load(Ordering::Relaxed) {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= self.seeds.end {
                            break;
                        }
                        let program = families::generate(seed, &self.families);
                        let (verdict, ours) = self.models.judge(&program, &scratch);
                        let failure = match verdict {
                            Verdict::Passed | Verdict::Skipped => None,
                            _ => Some(self.fail(&program, &verdict, &scratch)),
                        };
                        let mut s = summary.lock().unwrap_or_else(|e| e.into_inner());
                        if let Some(o) = &ours {
                            s.coverage.add(&program, o);
                        }
                        match (&verdict, failure) {
                            (Verdict::Passed, _) => s.passed += 1,
                            (Verdict::Skipped, _) => s.skipped += 1,
                            (_, failure) => {
                                s.failed += 1;
                                if let Some((text, line)) = failure {
                                    s.failures.push((program.family.into(), seed, line));
                                    progress(Progress::Failure(&text));
                                }
                                if s.failed == self.max_failures {
                                    stop.store(true, Ordering::Relaxed);
                                }
                            }
                        }
                        progress(Progress::Done(&s));
                    }
                });
            }
        });
        let _ = std::fs::remove_dir_all(&root);
        Ok(summary.into_inner().unwrap_or_else(|e| e.into_inner()))
    }
}

/// Progress of a campaign.
pub enum Progress<'a> {
    /// A program failed; its report.
    Failure(&'a str),
    /// A program is done; totals so far.
    Done(&'a Summary),
}

/// A private directory, in memory if the host has such a file system.
pub fn scratch_root() -> Result<PathBuf, String> {
    let shm = Path::new("/dev/shm");
    let base = if shm.is_dir() {
        shm.to_path_buf()
    } else {
        std::env::temp_dir()
    };
    let dir = base.join(format!("trapless-difftest-{}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(|e| format!("cannot create {}: {e}", dir.display()))?;
    Ok(dir)
}
