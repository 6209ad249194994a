//! A guest's driver in a few lines: what it receives, and what it cannot reach.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use proptest::prelude::*;
use trapless_devices::virtio::fs::FileServer;

use super::wire::{IN_HEADER, OUT_HEADER, Put, op};
use super::*;

/// Virtual time that stands still.
struct Still;

const NOW: u64 = 1_700_000_000_000_000_007;

impl Clock for Still {
    fn now_ns(&self) -> u64 {
        NOW
    }
}

struct Guest {
    server: Server,
    unique: u64,
}

impl Guest {
    fn of(folder: &Path, options: &str) -> Self {
        let share: Share = format!("{}{options}", folder.display()).parse().unwrap();
        let server = share.open().unwrap().with_clock(Box::new(Still));
        Self { server, unique: 0 }
    }

    /// The answer's body, or its error.
    fn ask(&mut self, opcode: u32, node: u64, body: &[u8]) -> Result<Vec<u8>, i32> {
        self.unique += 1;
        let request = message(opcode, self.unique, node, body);
        let mut answer = Vec::new();
        self.server.answer(&request, 1 << 20, &mut answer);
        let word = |at: usize| i32::from_le_bytes(answer[at..at + 4].try_into().unwrap());
        assert_eq!(word(0) as usize, answer.len());
        assert_eq!(answer[8..16], self.unique.to_le_bytes());
        match word(4) {
            0 => Ok(answer[OUT_HEADER..].to_vec()),
            error => Err(-error),
        }
    }

    fn look_up(&mut self, node: u64, name: &str) -> Result<u64, i32> {
        self.ask(op::LOOKUP, node, &text(name))
            .map(|a| number(&a, 0))
    }

    fn open(&mut self, opcode: u32, node: u64, flags: u32) -> Result<u64, i32> {
        let mut body = Vec::new();
        body.u32(flags);
        body.u32(0);
        self.ask(opcode, node, &body).map(|a| number(&a, 0))
    }

    fn read(&mut self, handle: u64, offset: u64, size: u32) -> Result<Vec<u8>, i32> {
        self.ask(op::READ, 0, &transfer(handle, offset, size))
    }

    fn write(&mut self, handle: u64, offset: u64, data: &[u8]) -> Result<Vec<u8>, i32> {
        let mut body = transfer(handle, offset, data.len() as u32);
        body.extend(data);
        self.ask(op::WRITE, 0, &body)
    }

    /// Number and handle of a new file.
    fn create(&mut self, node: u64, name: &str, mode: u32) -> Result<(u64, u64), i32> {
        let mut body = Vec::new();
        body.u32(2);
        body.u32(mode);
        body.zeroes(8);
        body.extend(text(name));
        let answer = self.ask(op::CREATE, node, &body)?;
        Ok((number(&answer, 0), number(&answer, 128)))
    }

    /// Names in a folder with their numbers, in the order in which they come.
    fn list(&mut self, node: u64) -> Vec<(String, u64)> {
        let handle = self.open(op::OPENDIR, node, 0).unwrap();
        let (mut names, mut offset) = (Vec::new(), 0);
        loop {
            // Small, so that there are several rounds.
            let answer = self.ask(op::READDIR, node, &transfer(handle, offset, 100));
            let answer = answer.unwrap();
            if answer.is_empty() {
                return names;
            }
            let mut at = 0;
            while at < answer.len() {
                let len = u32::from_le_bytes(answer[at + 16..at + 20].try_into().unwrap()) as usize;
                let name = String::from_utf8(answer[at + 24..at + 24 + len].to_vec()).unwrap();
                names.push((name, number(&answer, at)));
                offset = number(&answer, at + 8);
                at += (24 + len).next_multiple_of(8);
            }
        }
    }
}

fn message(opcode: u32, unique: u64, node: u64, body: &[u8]) -> Vec<u8> {
    let mut request = Vec::new();
    request.u32((IN_HEADER + body.len()) as u32);
    request.u32(opcode);
    request.u64(unique);
    request.u64(node);
    request.zeroes(16);
    request.extend(body);
    request
}

fn text(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn transfer(handle: u64, offset: u64, size: u32) -> Vec<u8> {
    let mut body = Vec::new();
    body.u64(handle);
    body.u64(offset);
    body.u32(size);
    body.zeroes(20);
    body
}

fn rename(to: u64, old: &str, new: &str) -> Vec<u8> {
    [&to.to_le_bytes()[..], &text(old), &text(new)].concat()
}

const ROOT: u64 = tree::ROOT;

/// A folder with a secret beside it, and links that lead there.
fn world() -> tempfile::TempDir {
    let world = tempfile::tempdir().unwrap();
    let shared = world.path().join("shared");
    fs::create_dir_all(shared.join("sub/deep")).unwrap();
    fs::write(world.path().join("secret"), "secret").unwrap();
    fs::write(shared.join("file"), "content").unwrap();
    fs::write(shared.join("sub/inner"), "inner").unwrap();
    symlink("../secret", shared.join("link")).unwrap();
    symlink("..", shared.join("up")).unwrap();
    symlink("sub", shared.join("down")).unwrap();
    world
}

#[test]
fn options_follow_the_name() {
    let share: Share = "a,b,ro,tag=data".parse().unwrap();
    assert_eq!(share.path, PathBuf::from("a,b"));
    assert!(share.read_only);
    assert_eq!(share.tag, "data");
    let share: Share = "out".parse().unwrap();
    assert_eq!((share.read_only, share.tag.as_str()), (false, "share"));
    assert!("out,tag=".parse::<Share>().is_err());
    assert!(
        "/,wo"
            .parse::<Share>()
            .unwrap_err()
            .contains("wo is unknown")
    );
    let missing: Share = "no/such/folder".parse().unwrap();
    let message = missing.open().map(|_| ()).unwrap_err();
    assert!(message.contains("give a folder that exists"), "{message}");
}

#[test]
fn guest_reads_and_writes_files() {
    let world = world();
    let folder = world.path().join("shared");
    let mut guest = Guest::of(&folder, "");
    let file = guest.look_up(ROOT, "file").unwrap();
    let handle = guest.open(op::OPEN, file, 0).unwrap();
    assert_eq!(guest.read(handle, 3, 100).unwrap(), b"tent");
    assert_eq!(
        guest.write(handle, 0, b"x"),
        Err(9),
        "it is open for reading"
    );
    guest
        .ask(op::RELEASE, file, &transfer(handle, 0, 0))
        .unwrap();
    assert_eq!(guest.read(handle, 0, 1), Err(9));
    let (new, handle) = guest.create(ROOT, "new", 0o7755).unwrap();
    guest.write(handle, 0, b"result").unwrap();
    let path = folder.join("new");
    assert_eq!(fs::read(&path).unwrap(), b"result");
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755, "no rights are lent");
    let moved = rename(ROOT, "new", "newer");
    guest.ask(op::RENAME, ROOT, &moved).unwrap();
    let mut by_number = Vec::new();
    by_number.zeroes(16);
    let answer = guest.ask(op::GETATTR, new, &by_number).unwrap();
    assert_eq!(number(&answer, 16), new, "it follows the name");
    assert_eq!(number(&answer, 24), 6);
    guest.ask(op::UNLINK, ROOT, &text("newer")).unwrap();
    assert_eq!(guest.look_up(ROOT, "newer"), Err(2));
    assert_eq!(guest.read(handle, 0, 9).unwrap(), b"result");
}

#[test]
fn read_only_folder_stays_as_it_is() {
    let world = world();
    let mut guest = Guest::of(&world.path().join("shared"), ",ro");
    const ROFS: i32 = 30;
    let file = guest.look_up(ROOT, "file").unwrap();
    for flags in [1, 2] {
        assert_eq!(guest.open(op::OPEN, file, flags), Err(ROFS));
    }
    assert_eq!(guest.create(ROOT, "new", 0o644), Err(ROFS));
    for opcode in [op::UNLINK, op::RMDIR, op::MKDIR, op::SETATTR, op::RENAME2] {
        assert_eq!(guest.ask(opcode, ROOT, &text("file")), Err(ROFS));
    }
}

#[test]
fn names_and_links_do_not_lead_out() {
    let world = world();
    let mut guest = Guest::of(&world.path().join("shared"), "");
    for name in [
        "..",
        ".",
        "",
        "../secret",
        "sub/../../secret",
        "/etc/passwd",
    ] {
        assert_eq!(guest.look_up(ROOT, name), Err(22), "{name}");
        assert!(guest.create(ROOT, name, 0o644).is_err(), "{name}");
        assert!(guest.ask(op::UNLINK, ROOT, &text(name)).is_err(), "{name}");
        let moved = rename(ROOT, "file", name);
        assert!(guest.ask(op::RENAME, ROOT, &moved).is_err(), "{name}");
    }
    for link in ["link", "up", "down"] {
        let node = guest.look_up(ROOT, link).unwrap();
        assert!(guest.open(op::OPEN, node, 0).is_err(), "{link}");
        assert!(guest.open(op::OPENDIR, node, 0).is_err(), "{link}");
        for name in ["secret", "inner"] {
            assert!(guest.look_up(node, name).is_err(), "{link}");
            assert!(guest.create(node, name, 0o644).is_err(), "{link}");
        }
    }
    let link = guest.look_up(ROOT, "link").unwrap();
    assert_eq!(guest.ask(op::READLINK, link, &[]).unwrap(), b"../secret");
}

#[test]
fn links_that_a_guest_makes_lead_down() {
    let world = world();
    let mut guest = Guest::of(&world.path().join("shared"), "");
    for (target, allowed) in [
        ("file", true),
        ("sub/inner", true),
        ("/etc/passwd", false),
        ("../secret", false),
        ("sub/../../secret", false),
    ] {
        let body = [text("made"), text(target)].concat();
        let made = guest.ask(op::SYMLINK, ROOT, &body);
        assert_eq!(made.is_ok(), allowed, "{target}");
        if allowed {
            guest.ask(op::UNLINK, ROOT, &text("made")).unwrap();
        }
    }
}

/// Promise: a link of the host's that leads up within the shared folder is not moved, nor linked,
/// to where it would lead out of it.
#[test]
fn links_that_lead_up_are_not_moved_to_where_they_lead_out() {
    let world = world();
    let shared = world.path().join("shared");
    symlink("..", shared.join("sub/deep/inside")).unwrap();
    symlink("../..", shared.join("sub/deep/top")).unwrap();
    symlink("x/../../..", shared.join("sub/deep/through")).unwrap();
    symlink("../b", shared.join("sub/deep/beside")).unwrap();
    let mut guest = Guest::of(&shared, "");
    let sub = guest.look_up(ROOT, "sub").unwrap();
    let deep = guest.look_up(sub, "deep").unwrap();
    const XDEV: i32 = 18;
    let mut moved = |from, to, old: &str| {
        let moved = guest.ask(op::RENAME, from, &rename(to, old, old));
        moved.map(|_| ())
    };
    assert_eq!(moved(deep, ROOT, "inside"), Err(XDEV));
    assert_eq!(moved(deep, sub, "top"), Err(XDEV));
    assert_eq!(moved(deep, sub, "through"), Err(XDEV));
    assert_eq!(moved(sub, ROOT, "deep"), Err(XDEV), "a link in it");
    assert_eq!(moved(deep, sub, "inside"), Ok(()), "to where it stays in");
    assert_eq!(moved(sub, ROOT, "inside"), Err(XDEV));
    assert_eq!(moved(sub, deep, "inside"), Ok(()), "down");
    fs::remove_file(shared.join("sub/deep/top")).unwrap();
    fs::remove_file(shared.join("sub/deep/through")).unwrap();
    assert_eq!(moved(sub, ROOT, "deep"), Ok(()), "links stay in it");
    let beside = guest.look_up(deep, "beside").unwrap();
    let link = [&beside.to_le_bytes()[..], &text("made")].concat();
    assert_eq!(guest.ask(op::LINK, ROOT, &link), Err(XDEV));
    assert!(guest.ask(op::LINK, deep, &link).is_ok());
    let exchange = [&ROOT.to_le_bytes()[..], &[2, 0, 0, 0, 0, 0, 0, 0]].concat();
    let exchange = [exchange, text("beside"), text("file")].concat();
    assert_eq!(guest.ask(op::RENAME2, deep, &exchange), Err(XDEV));
}

#[test]
fn folder_that_became_a_link_is_not_entered() {
    let world = world();
    let shared = world.path().join("shared");
    let mut guest = Guest::of(&shared, "");
    let sub = guest.look_up(ROOT, "sub").unwrap();
    fs::rename(shared.join("sub"), shared.join("old")).unwrap();
    symlink(world.path(), shared.join("sub")).unwrap();
    assert!(guest.look_up(sub, "secret").is_err());
    assert!(guest.create(sub, "new", 0o644).is_err());
}

#[test]
fn pipes_and_sockets_are_not_there() {
    let world = world();
    let shared = world.path().join("shared");
    let pipe = shared.join("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).unwrap();
    let mut guest = Guest::of(&shared, "");
    assert_eq!(guest.look_up(ROOT, "pipe"), Err(2));
    assert!(guest.list(ROOT).iter().all(|(name, _)| name != "pipe"));
}

/// Two copies of a folder differ in inodes, order of names and times of creation.
#[test]
fn copies_of_a_folder_look_the_same() {
    let world = world();
    let copy = world.path().join("copy");
    let files = ["b", "a", "d", "c"];
    for (folder, order) in [("shared", [0, 1, 2, 3]), ("copy", [3, 1, 0, 2])] {
        let folder = world.path().join(folder);
        fs::create_dir_all(folder.join("sub/deep")).unwrap();
        fs::write(folder.join("file"), "content").unwrap();
        fs::write(folder.join("sub/inner"), "inner").unwrap();
        for index in order {
            fs::write(folder.join(files[index]), files[index]).unwrap();
        }
        for name in [
            "file",
            "sub/inner",
            "sub/deep",
            "sub",
            "a",
            "b",
            "c",
            "d",
            ".",
        ] {
            let times = fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
            let file = fs::File::open(folder.join(name)).unwrap();
            file.set_times(times).unwrap();
        }
    }
    for (link, target) in [("link", "../secret"), ("up", ".."), ("down", "sub")] {
        symlink(target, copy.join(link)).unwrap();
    }
    let [one, two] = ["shared", "copy"].map(|name| {
        let mut guest = Guest::of(&world.path().join(name), "");
        let names = guest.list(ROOT);
        let mut answers = vec![format!("{names:?}").into_bytes()];
        for (name, _) in names.iter().filter(|(name, _)| name.len() < 5) {
            if let Ok(answer) = guest.ask(op::LOOKUP, ROOT, &text(name)) {
                // Links have no time that can be set here.
                let link = ["link", "up", "down"].contains(&name.as_str());
                answers.push(answer[..if link { 64 } else { answer.len() }].to_vec());
            }
        }
        let (node, handle) = guest.create(ROOT, "new", 0o644).unwrap();
        guest.write(handle, 0, b"1").unwrap();
        let mut body = Vec::new();
        body.zeroes(16);
        answers.push(guest.ask(op::GETATTR, node, &body).unwrap());
        answers.push(guest.ask(op::GETATTR, ROOT, &body).unwrap());
        answers.push(guest.ask(op::STATFS, ROOT, &[]).unwrap());
        answers
    });
    assert_eq!(one, two);
}

/// Promise: a guest's root has not the rights of the program's owner on the host.
#[test]
fn programs_that_lend_their_owners_rights_are_only_read() {
    let world = world();
    let file = world.path().join("shared/file");
    fs::set_permissions(&file, PermissionsExt::from_mode(0o4755)).unwrap();
    let mut guest = Guest::of(&world.path().join("shared"), "");
    let node = guest.look_up(ROOT, "file").unwrap();
    assert!(guest.open(op::OPEN, node, 0).is_ok());
    assert_eq!(guest.open(op::OPEN, node, 1), Err(1));
    assert_eq!(guest.open(op::OPEN, node, 2), Err(1));
}

/// Promise: a guest that writes to files which it has removed, over and over, takes no memory for
/// it.
#[test]
fn what_a_guest_has_removed_is_forgotten() {
    let world = world();
    let mut guest = Guest::of(&world.path().join("shared"), "");
    let before = guest.server.tree.remembered();
    for round in 0..100 {
        let (node, handle) = guest.create(ROOT, "brief", 0o600).unwrap();
        guest.ask(op::UNLINK, ROOT, &text("brief")).unwrap();
        guest.write(handle, 0, b"gone").unwrap();
        guest
            .ask(op::RELEASE, node, &transfer(handle, 0, 0))
            .unwrap();
        if round % 2 == 0 {
            let mut forgotten = Vec::new();
            let request = message(op::FORGET, 0, node, &1_u64.to_le_bytes());
            guest.server.answer(&request, 0, &mut forgotten);
        } else {
            guest.server.reset();
        }
    }
    let after = guest.server.tree.remembered();
    // The folder's own time.
    assert!(after <= before + 1, "{before} {after}");
}

/// Promise: a machine moves and links nothing between another one's look for links that would lead
/// out of the folder that they share, and what follows from it.
#[test]
fn machines_that_share_a_folder_take_turns() {
    const BUSY: i32 = 16;
    let world = world();
    let shared = world.path().join("shared");
    let other = Guest::of(&shared, "");
    let mut guest = Guest::of(&shared, "");
    let sub = guest.look_up(ROOT, "sub").unwrap();
    let mut moved = || guest.ask(op::RENAME, ROOT, &rename(sub, "file", "file"));
    let looking = other.server.tree.alone().unwrap();
    assert_eq!(moved(), Err(BUSY));
    drop(looking);
    assert_eq!(moved(), Ok(Vec::new()));
}

#[test]
fn what_is_gone_is_stale() {
    let world = world();
    let shared = world.path().join("shared");
    let mut guest = Guest::of(&shared, "");
    let node = guest.look_up(ROOT, "file").unwrap();
    fs::remove_file(shared.join("file")).unwrap();
    assert_eq!(guest.open(op::OPEN, node, 0), Err(116));
    assert_eq!(guest.look_up(ROOT, "file"), Err(2));
}

#[test]
fn folders_are_listed_when_they_are_read() {
    let world = world();
    let shared = world.path().join("shared");
    let mut guest = Guest::of(&shared, "");
    let handle = guest.open(op::OPENDIR, ROOT, 0).unwrap();
    let listed = |guest: &mut Guest, offset| {
        let answer = guest.ask(op::READDIR, ROOT, &transfer(handle, offset, 4096));
        answer.unwrap().windows(4).any(|part| part == b"late")
    };
    fs::write(shared.join("late"), "").unwrap();
    assert!(listed(&mut guest, 0));
    fs::remove_file(shared.join("late")).unwrap();
    assert!(!listed(&mut guest, 0));
    guest.ask(op::FSYNCDIR, ROOT, &[0; 16]).unwrap();
    guest.ask(op::SYNCFS, ROOT, &[0; 8]).unwrap();
}

#[test]
fn names_of_a_folder_are_bounded() {
    let world = world();
    let root = place::open_root(world.path()).unwrap();
    let all = place::Place::root(&root).unwrap();
    let count = all.list(100).unwrap().len();
    assert_eq!(all.list(count).unwrap().len(), count);
    assert!(all.list(count - 1).is_err());
}

#[test]
fn what_the_guest_changes_has_the_guests_time() {
    let world = world();
    let mut guest = Guest::of(&world.path().join("shared"), "");
    let file = guest.look_up(ROOT, "file").unwrap();
    let handle = guest.open(op::OPEN, file, 1).unwrap();
    guest.write(handle, 0, b"x").unwrap();
    let mut body = Vec::new();
    body.zeroes(16);
    let answer = guest.ask(op::GETATTR, file, &body).unwrap();
    assert_eq!(number(&answer, 16 + 32), NOW / 1_000_000_000);
}

/// Promise: runs that make files are the same at any hour.
#[test]
fn what_the_guest_makes_has_the_guests_time() {
    let world = world();
    let mut guest = Guest::of(&world.path().join("shared"), "");
    let modified = |answer: Vec<u8>| number(&answer, 40 + 32);
    let folder = [&[0; 8][..], &text("folder")].concat();
    let made = guest.ask(op::MKDIR, ROOT, &folder).unwrap();
    assert_eq!(modified(made), NOW / 1_000_000_000);
    let link = [text("made"), text("file")].concat();
    let made = guest.ask(op::SYMLINK, ROOT, &link).unwrap();
    assert_eq!(modified(made), NOW / 1_000_000_000);
    guest.create(ROOT, "empty", 0o644).unwrap();
    let found = guest.ask(op::LOOKUP, ROOT, &text("empty")).unwrap();
    assert_eq!(modified(found), NOW / 1_000_000_000);
}

/// Promise: a guest that takes all rights from a file can give them back, as its owner could.
/// Root, which may open anything, sees nothing of this.
#[test]
fn permissions_of_what_cannot_be_read_can_be_changed() {
    let world = world();
    let file = world.path().join("shared/file");
    let mut guest = Guest::of(&world.path().join("shared"), "");
    let node = guest.look_up(ROOT, "file").unwrap();
    for mode in [0, 0o644] {
        let mut body = Vec::new();
        body.u64(1);
        body.zeroes(60);
        body.u32(mode);
        body.zeroes(16);
        guest.ask(op::SETATTR, node, &body).unwrap();
        let found = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(found & 0o7777, mode);
    }
}

/// All files below `folder` with their modes and, where nobody has taken the right to read them,
/// contents.
fn contents(folder: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let Ok(about) = fs::symlink_metadata(&path) else {
            continue;
        };
        let bytes = match fs::read_link(&path) {
            Ok(target) => target.into_os_string().into_encoded_bytes(),
            Err(_) if about.is_dir() => {
                found.extend(contents(&path));
                Vec::new()
            }
            Err(_) => fs::read(&path).unwrap_or_default(),
        };
        found.insert(path, (about.mode(), bytes));
    }
    found
}

fn some_name() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => prop::sample::select(vec!["file", "sub", "inner", "deep", "link", "up", "down", "new"])
            .prop_map(|name| name.as_bytes().to_vec()),
        1 => prop::sample::select(vec!["..", ".", "", "../outside/victim", "/", "a/b", "../secret"])
            .prop_map(|name| name.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..300),
    ]
}

/// Requests as a hostile guest sends them: right ones with any names and numbers, and any bytes.
fn some_request() -> impl Strategy<Value = Vec<u8>> {
    let opcode = prop_oneof![
        9 => prop::sample::select(vec![
            op::LOOKUP, op::GETATTR, op::SETATTR, op::READLINK, op::SYMLINK, op::MKNOD, op::MKDIR,
            op::UNLINK, op::RMDIR, op::RENAME, op::LINK, op::OPEN, op::READ, op::WRITE, op::STATFS,
            op::RELEASE, op::FSYNC, op::INIT, op::OPENDIR, op::READDIR, op::CREATE, op::DESTROY,
            op::BATCH_FORGET, op::FORGET, op::RENAME2,
        ]),
        1 => any::<u32>(),
    ];
    let number = || prop_oneof![6 => 0..8_u64, 1 => any::<u64>()];
    let fields = prop::collection::vec(number(), 0..6);
    let names = prop::collection::vec(some_name(), 0..3);
    let tail = prop::collection::vec(any::<u8>(), 0..40);
    (opcode, number(), fields, names, tail, any::<bool>()).prop_map(
        |(opcode, node, fields, names, tail, cut)| {
            let head = match opcode {
                op::LOOKUP | op::UNLINK | op::RMDIR | op::SYMLINK => 0,
                op::RENAME | op::LINK | op::MKDIR => 8,
                op::RENAME2 | op::MKNOD | op::CREATE => 16,
                op::SETATTR => 88,
                _ => 40,
            };
            let mut body: Vec<u8> = fields.iter().flat_map(|n| n.to_le_bytes()).collect();
            if !cut {
                body.resize(head, 0);
            }
            for name in names {
                body.extend(name);
                body.push(0);
            }
            body.extend(tail);
            message(opcode, 1, node, &body)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever a guest sends: no panic, answers that fit, nothing outside of the folder is read,
    /// changed or made, and with `ro` nothing in it.
    #[test]
    fn hostile_guest_reaches_nothing_outside(
        requests in prop::collection::vec(some_request(), 1..60),
        room in prop_oneof![Just(1 << 16), 0..200_usize],
        read_only: bool,
    ) {
        let world = tempfile::tempdir().unwrap();
        let outside = world.path().join("outside");
        let shared = world.path().join("shared");
        fs::create_dir_all(&outside).unwrap();
        fs::create_dir_all(shared.join("sub/deep")).unwrap();
        fs::write(outside.join("victim"), "secret").unwrap();
        fs::write(world.path().join("secret"), "secret").unwrap();
        fs::write(shared.join("file"), "content").unwrap();
        fs::write(shared.join("sub/inner"), "inner").unwrap();
        symlink("../outside", shared.join("up")).unwrap();
        symlink("../outside/victim", shared.join("link")).unwrap();
        symlink(&outside, shared.join("sub/down")).unwrap();
        let everything = contents(world.path());
        let mut guest = Guest::of(&shared, if read_only { ",ro" } else { "" });
        for name in ["file", "sub", "link", "up"] {
            guest.look_up(ROOT, name).unwrap();
        }
        for request in &requests {
            let mut answer = Vec::new();
            guest.server.answer(request, room, &mut answer);
            prop_assert!(answer.len() <= room.max(OUT_HEADER));
            prop_assert!(!answer.windows(6).any(|part| part == b"secret"));
        }
        let after = contents(world.path());
        let guarded = |path: &Path| read_only || !path.starts_with(&shared);
        for (path, was) in everything.iter().filter(|(path, _)| guarded(path)) {
            prop_assert_eq!(after.get(path), Some(was), "{}", path.display());
        }
        for path in after.keys().filter(|path| guarded(path)) {
            prop_assert!(everything.contains_key(path), "{} is new", path.display());
        }
    }

    /// Bytes that are no request do no harm.
    #[test]
    fn any_bytes_are_answered_or_ignored(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let world = world();
        let mut guest = Guest::of(&world.path().join("shared"), "");
        let mut answer = Vec::new();
        guest.server.answer(&bytes, 1 << 16, &mut answer);
        prop_assert!(answer.is_empty() || answer.len() >= OUT_HEADER);
    }
}
