//! The page in a real browser.

mod synthetic;

use std::path::{Path, PathBuf};
use std::process::Command;

use trapless_report::page;

/// Chromium, if it is installed.
fn chromium() -> Option<&'static str> {
    ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| {
            Command::new(name)
                .arg("--version")
                .output()
                .is_ok_and(|out| out.status.success())
        })
}

fn browse(program: &str, dir: &Path, more: &[&str], url: &str) -> std::process::Output {
    let profile = dir.join("profile");
    let _ = std::fs::remove_dir_all(&profile);
    std::fs::create_dir_all(&profile).unwrap();
    Command::new("timeout")
        .arg("120")
        .arg(program)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--hide-scrollbars",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ])
        .args([
            "--enable-logging=stderr",
            "--v=0",
            "--disable-dev-shm-usage",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(more)
        .arg(url)
        .output()
        .unwrap()
}

fn write_page() -> (PathBuf, PathBuf) {
    let ledgers = [
        synthetic::ledger("sbi", 1000),
        synthetic::ledger("sstc", 1000),
    ];
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("page.html");
    std::fs::write(&file, page(&ledgers)).unwrap();
    (dir, file)
}

#[test]
fn page_needs_nothing_from_outside_and_escapes_what_it_is_given() {
    let text = page(&[synthetic::ledger("<script>alert(1)</script>", 5)]);
    assert!(!text.contains("<script"));
    assert!(text.contains("SYNTHETIC &lt;test&gt; &amp; &quot;data&quot;"));
    for forbidden in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!text.contains(forbidden), "{forbidden}");
    }
    // A ledger without any guest makes a page as well.
    assert!(page(&[synthetic::ledger("sbi", 0)]).contains("No guest"));
    assert!(page(&[]).contains("<html"));
}

#[test]
fn a_browser_shows_the_numbers_without_complaint() {
    let Some(program) = chromium() else {
        eprintln!("SKIPPED: no Chromium on this machine (Debian package `chromium`)");
        return;
    };
    let (dir, file) = write_page();
    let url = format!("file://{}", file.display());
    let dump = browse(program, &dir, &["--dump-dom"], &url);
    let dom = String::from_utf8_lossy(&dump.stdout);
    let log = String::from_utf8_lossy(&dump.stderr);
    assert!(dom.contains("timer workload: sbi vs sstc"), "{log}");
    assert!(
        dom.contains("1\u{202f}000 exits and 1\u{202f}000 firmware traps on sbi; 0 exits on sstc")
    );
    assert!(dom.contains("timer_set: HS ecall(TIME) -&gt; M"));
    assert!(dom.contains("rocket-sched"));
    assert!(!log.contains("CONSOLE"), "{log}");

    for (name, width, height, dark) in [
        ("wide-light", 1280, 4600, false),
        ("wide-dark", 1280, 4600, true),
        ("narrow-light", 500, 6600, false),
    ] {
        let shot = dir.join(format!("{name}.png"));
        let _ = std::fs::remove_file(&shot);
        let target = format!("--screenshot={}", shot.display());
        let size = format!("--window-size={width},{height}");
        let mut flags = vec![target.as_str(), size.as_str()];
        if dark {
            flags.push("--blink-settings=preferredColorScheme=0");
        }
        let out = browse(program, &dir, &flags, &url);
        let png = std::fs::read(&shot).unwrap_or_default();
        // A blank page of this size compresses to a few kilobytes.
        let log = String::from_utf8_lossy(&out.stderr);
        assert!(png.len() > 60_000, "{name}: {} bytes\n{log}", png.len());
    }
}

/// Promise: intervals of several runs stay inside the boxes, on a wide page and on a narrow one.
#[test]
fn figures_of_several_runs_do_not_stick_out() {
    let Some(program) = chromium() else {
        eprintln!("SKIPPED: no Chromium on this machine (Debian package `chromium`)");
        return;
    };
    let mut ledgers = Vec::new();
    for machine in ["sbi", "sstc", "aia", "trapless"] {
        for seed in 0..5 {
            let mut ledger = synthetic::ledger(machine, 1000);
            let configuration = &mut ledger.run.configuration;
            configuration.insert("seed".into(), seed.to_string());
            for exit in ledger
                .phases
                .iter_mut()
                .flat_map(|p| p.totals.exits.values_mut())
            {
                exit.exits += 1111 * seed;
                exit.firmware_traps += 1234 * seed;
            }
            ledgers.push(ledger);
        }
    }
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("several");
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("page.html");
    // Names in the title what reaches beyond the box that it is in.
    let script = "<script>document.title = [...document.querySelectorAll('.card *, .bar *')]\
        .filter(e => e.getBoundingClientRect().right > \
            e.closest('.card, section').getBoundingClientRect().right)\
        .map(e => e.textContent).join('; ') || 'all fits'</script></body>";
    let text = page(&ledgers);
    assert!(text.contains("(2\u{202f}"), "there are intervals");
    let text = text.replace("Content-Security-Policy", "");
    let text = text.replace("</body>", script);
    std::fs::write(&file, text).unwrap();
    let url = format!("file://{}", file.display());
    for width in ["1280", "500"] {
        let size = format!("--window-size={width},2000");
        let dump = browse(program, &dir, &["--dump-dom", &size], &url);
        let dom = String::from_utf8_lossy(&dump.stdout);
        let title = dom
            .split("<title>")
            .nth(1)
            .and_then(|t| t.split('<').next());
        assert_eq!(title, Some("all fits"), "{width} wide");
    }
}

#[test]
#[ignore = "writes pages to look at: one machine, and three"]
fn write_pages_to_look_at() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
    std::fs::create_dir_all(&dir).unwrap();
    let three = ["sbi", "sstc", "trapless"].map(|machine| synthetic::ledger(machine, 1000));
    std::fs::write(dir.join("one.html"), page(&three[..1])).unwrap();
    std::fs::write(dir.join("three.html"), page(&three)).unwrap();
    eprintln!("{}", dir.display());
}
