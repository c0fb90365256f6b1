//! Memory that is transferred while the restored container already runs (`--lazy-pages`).

use super::Saved;
use super::crash::{assert_whole, kill_call};
use super::kept::may_use_resources;
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::criu;
use dayfly_tests::killed::Killed;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Running;
use dayfly_tests::wait;
use std::fs::{self, File};
use std::io::Read;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::Duration;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(migration).needs(|| lacking().and_then(|()| may_use_resources())).unlike_runc().alone(),
    case!(killed_while_it_serves).needs(lacking).unlike_runc().alone(),
    case!(criu_killed_while_it_serves).needs(lacking).unlike_runc().alone(),
    case!(pages_to_a_server).needs(criu::lacking).unlike_runc().alone(),
    case!(options).needs(lacking).unlike_runc(),
];

/// Checks that criu can use userfaultfd(2) here.
fn lacking() -> Result<(), String> {
    criu::lacking()?;
    let mut check = Command::new(criu::program());
    let check = check.args(["check", "--feature", "uffd-noncoop"]).stdin(Stdio::null()).output();
    match check.map_err(|error| error.to_string())?.status.success() {
        true => Ok(()),
        false => Err("the kernel has no userfaultfd that criu can use".to_owned()),
    }
}

fn free_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    listener.local_addr().expect("address").port().to_string()
}

/// Starts a checkpoint, and waits until its criu serves pages on `port`.
fn serving(saved: &Saved<'_>, port: &str) -> Running {
    let (mut reads, writes) = std::io::pipe().expect("pipe");
    let server = format!("127.0.0.1:{port}");
    let flags = ["--lazy-pages", "--page-server", &server, "--status-fd", "0"];
    let call = saved.checkpoint_call(&flags).stdin(File::from(OwnedFd::from(writes)));
    let running = call.within(wait::patience() * 3).spawn();
    let mut byte = [1];
    let received = reads.read_exact(&mut byte);
    if received.is_err() {
        panic!("no byte of the status descriptor: {}", running.wait());
    }
    assert_eq!(byte, [0]);
    assert!(saved.images.join("inventory.img").exists());
    assert!(!running.has_ended(), "it does not wait");
    running
}

/// Starts a process of criu.
fn daemon(saved: &Saved<'_>, arguments: &[&str]) -> Killed {
    let mut command = Command::new(criu::program());
    command.args(arguments).arg("-D").arg(&saved.images).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Killed(command.spawn().expect("criu"))
}

fn migration(bed: &Bed) {
    let saved = Saved::counting(bed);
    let port = free_port();
    let served = serving(&saved, &port);
    let then = saved.count();
    let server = ["lazy-pages", "--page-server", "--address", "127.0.0.1", "--port", &port];
    let mut pages = daemon(&saved, &server);
    wait::until_true("the daemon", || saved.images.join("lazy-pages.socket").exists());
    // The first container is removed only when its last page has been transferred.
    let other = Container { bed, id: bed.id(), bundle: saved.c.bundle.clone() };
    let config = other.bundle.join("config.json");
    let text = fs::read_to_string(&config).expect("config.json");
    fs::write(&config, text.replace(&saved.c.id, &other.id)).expect("write");
    let other = Saved::of(other, saved.images.clone());
    other.restore(&["--lazy-pages"]).ok();
    assert_eq!(other.c.status(), "running");
    assert!(other.counts() > then);
    served.wait().ok();
    saved.c.assert_gone("a migrated container");
    assert!(pages.0.wait().expect("wait").success(), "the daemon");
    assert!(other.counts() > then);
    other.c.exec(&["true"]).ok();
}

fn killed_while_it_serves(bed: &Bed) {
    let saved = Saved::counting(bed);
    for round in 0..4 {
        let running = serving(&saved, &free_port());
        kill_call(running, Duration::from_millis(round * 5));
        assert!(assert_whole(&saved), "it has ended");
    }
    saved.cycle();
    saved.counts();
}

fn criu_killed_while_it_serves(bed: &Bed) {
    let saved = Saved::counting(bed);
    for _ in 0..2 {
        let running = serving(&saved, &free_port());
        let outcome = super::crash::kill_criu(running, Duration::ZERO);
        assert!(outcome.stderr.contains("criu failed: it was killed by signal 9"), "{outcome}");
        assert!(assert_whole(&saved), "it has ended");
    }
}

/// Another criu receives the pages, and writes them to the images.
fn pages_to_a_server(bed: &Bed) {
    let saved = Saved::counting(bed);
    fs::create_dir(&saved.images).expect("mkdir");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(&saved.images, mode).expect("chmod");
    let port = free_port();
    let mut server = daemon(&saved, &["page-server", "--address", "127.0.0.1", "--port", &port]);
    let hex = format!(":{:04X} ", port.parse::<u16>().expect("port"));
    wait::until_true("the server", || {
        let sockets = fs::read_to_string("/proc/net/tcp").expect("tcp");
        sockets.lines().any(|line| line.contains(&hex) && line.contains(" 0A "))
    });
    saved.checkpoint(&["--page-server", &format!("127.0.0.1:{port}")]).ok();
    assert!(server.0.wait().expect("wait").success(), "the server");
    saved.restore(&[]).ok();
    saved.counts();
}

fn options(bed: &Bed) {
    let saved = Saved::counting(bed);
    let lazily = |flags: &[&str]| {
        let server = ["--lazy-pages", "--page-server", "127.0.0.1:1"];
        saved.checkpoint(&[&server, flags].concat())
    };
    lazily(&["--status-fd", "1000"])
        .fails("invalid --status-fd argument 1000: bad file descriptor");
    let read_only = File::open("/dev/null").expect("open");
    saved
        .checkpoint_call(&["--lazy-pages", "--status-fd", "0"])
        .stdin(read_only)
        .run()
        .fails("invalid --status-fd argument 0: not writable");
    for server in ["here", ":1", "here:"] {
        saved
            .checkpoint(&["--page-server", server])
            .fails("Use --page-server ADDRESS:PORT to specify page server");
    }
    saved.checkpoint(&["--page-server", "here:http"]).fails("Invalid port number");
    assert!(!saved.images.exists());
    assert_eq!(saved.c.status(), "running");
    // Without lazy pages, the descriptor is of no use.
    saved.checkpoint(&["--status-fd", "1000"]).ok();
    let mapped = Saved::running(crate::userns::mapped(bed).sh(super::COUNTER));
    mapped.checkpoint(&["--lazy-pages"]).fails("userfaultfd(2) takes CAP_SYS_PTRACE of the host");
    // No daemon provides the pages.
    saved.restore(&["--lazy-pages"]).fails("criu failed");
    saved.c.assert_gone("a restore without its daemon");
    saved.restore(&[]).ok();
    saved.counts();
}
