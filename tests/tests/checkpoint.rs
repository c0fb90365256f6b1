//! Saves containers to files and restores them, with criu.

pub mod cgroups;
pub mod crash;
pub mod kept;
pub mod late;
pub mod layers;
pub mod lazy;
pub mod named;
pub mod quick;
pub mod refused;
pub mod sharing;
pub mod tracked;
pub mod userns;

use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::criu;
use dayfly_tests::layers::Layers;
use dayfly_tests::leak::Host;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::{Call, Outcome};
use dayfly_tests::wait;
use serde_json::json;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(goes_on_where_it_was).needs(criu::lacking).unlike_runc(),
    case!(left_running).needs(criu::lacking).unlike_runc(),
    case!(again_and_again).needs(criu::lacking).unlike_runc(),
    case!(commands_after_a_restore).needs(criu::lacking).unlike_runc(),
    case!(restored_under_another_id).needs(criu::lacking).unlike_runc(),
    case!(exit_status_of_one_in_the_foreground).needs(criu::lacking).unlike_runc(),
    case!(log_is_in_the_work_path).needs(criu::lacking).unlike_runc(),
    case!(work_path_of_another_user).needs(criu::lacking).unlike_runc(),
    case!(modes_of_cgroups).needs(criu::lacking).unlike_runc(),
    case!(a_hundred_at_once).needs(criu::lacking).unlike_runc().alone(),
];

/// A script that closes the standard streams, because they lead outside the container, and then counts in a file of the
/// root filesystem.
pub const COUNTER: &str = "exec </dev/null >/dev/null 2>&1; i=0; \
                       while :; do i=$((i+1)); echo $i >/n.new; mv /n.new /n; usleep 20000; done";

/// A container and the directory of its images.
pub struct Saved<'a> {
    pub c: Container<'a>,
    pub images: PathBuf,
    /// The layers of the root filesystem, if it has some.
    pub layered: Option<Layered>,
}

/// A root filesystem from layers.
pub struct Layered {
    pub layers: Layers,
    /// The flags of `run` and `restore`.
    pub flags: Vec<String>,
}

/// A script that writes a file on the tmpfs /data/own, and appends lines to /data/log.
const WRITER: &str = "exec </dev/null >/dev/null 2>&1; echo kept >/data/own/kept; exec 3>>/data/log; \
                      while :; do echo line >&3; usleep 20000; done";

impl<'a> Saved<'a> {
    /// Starts a container that runs `bundle`'s program, detached.
    #[track_caller]
    pub fn running(bundle: Bundle<'a>) -> Self {
        let c = bundle.make().detached();
        let images = c.bed.dir.join(format!("images-{}", c.id));
        Self::of(c, images)
    }

    /// Pairs `c` with the directory of its images. The container need not have been created.
    pub fn of(c: Container<'a>, images: PathBuf) -> Self {
        Self { c, images, layered: None }
    }

    /// Starts a container with a root filesystem from layers that runs `bundle`'s program, detached.
    #[track_caller]
    pub fn on_layers(bundle: Bundle<'a>, flags: &[&str]) -> Self {
        let c = bundle.make();
        fs::remove_dir_all(c.bundle.join("rootfs")).expect("remove rootfs");
        let layers = Layers::new(c.bed, 3);
        let flags = layers.flags().into_iter().chain(flags.iter().map(|&flag| flag.to_owned()));
        let layered = Layered { flags: flags.collect(), layers };
        let images = c.bed.dir.join(format!("images-{}", c.id));
        let saved = Self { c, images, layered: Some(layered) };
        saved.run().ok();
        saved
    }

    /// Runs the container, detached.
    #[track_caller]
    pub fn run(&self) -> Outcome {
        let flags: Vec<&str> = ["--detach"].into_iter().chain(self.of_layers()).collect();
        self.with_leases(self.c.bundle_call("run", &flags)).run()
    }

    fn of_layers(&self) -> impl Iterator<Item = &str> {
        self.layered.iter().flat_map(|layered| layered.flags.iter().map(String::as_str))
    }

    fn with_leases(&self, call: Call) -> Call {
        match &self.layered {
            Some(layered) => call.env("DAYFLY_IDS", layered.layers.leases.to_str().expect("path")),
            None => call,
        }
    }

    /// Runs `delete --force`, which also frees a range of ids that a killed command has taken but not recorded.
    #[track_caller]
    pub fn delete_force(&self) -> Outcome {
        self.with_leases(self.c.id_call("delete", &["--force"], &[])).run()
    }

    /// Starts a container that counts.
    #[track_caller]
    pub fn counting(bed: &'a Bed) -> Self {
        let saved = Self::running(bed.bundle().sh(COUNTER));
        saved.counts();
        saved
    }

    fn flags<'b>(&'b self, flags: &[&'b str]) -> Vec<&'b str> {
        [&["--image-path", self.images.to_str().expect("path")], flags].concat()
    }

    /// Returns the call of `checkpoint`.
    pub fn checkpoint_call(&self, flags: &[&str]) -> Call {
        self.c.id_call("checkpoint", &self.flags(flags), &[]).env("DAYFLY_CRIU", &criu::program())
    }

    /// Returns the call of `restore`.
    pub fn restore_call(&self, flags: &[&str]) -> Call {
        let flags: Vec<&str> = self.flags(flags).into_iter().chain(self.of_layers()).collect();
        let call = self.with_leases(self.c.bundle_call("restore", &flags));
        call.env("DAYFLY_CRIU", &criu::program()).within(wait::patience() * 3)
    }

    #[track_caller]
    pub fn checkpoint(&self, flags: &[&str]) -> Outcome {
        self.checkpoint_call(flags).within(wait::patience() * 3).run()
    }

    #[track_caller]
    pub fn restore(&self, flags: &[&str]) -> Outcome {
        self.restore_call(&[&["--detach"], flags].concat()).run()
    }

    /// Saves and restores the container.
    #[track_caller]
    pub fn cycle(&self) {
        self.checkpoint(&[]).ok();
        self.restore(&[]).ok();
    }

    /// Saves and restores a container that runs [`WRITER`], whose log is the file `log` of the
    /// host. Asserts that the program continues to write, and that the file `mountinfo` in the
    /// container shows the same mount points as before.
    #[track_caller]
    pub fn writes_on(&self, log: &Path, mountinfo: &str) {
        let length = || fs::metadata(log).map_or(0, |stat| stat.len());
        wait::until_true("lines", || length() > 0);
        let mounts = || places(&self.c.sh(&format!("cat {mountinfo}")).ok().stdout);
        let before = mounts();
        self.checkpoint(&[]).ok();
        let then = length();
        self.restore(&[]).ok();
        wait::until_true("lines after it", || length() > then);
        assert_eq!(mounts(), before);
    }

    /// Returns the file of the current count.
    fn counted(&self) -> PathBuf {
        match &self.layered {
            Some(layered) => {
                layered.layers.store.join("containers").join(&self.c.id).join("upper/n")
            }
            None => self.c.bundle.join("rootfs/n"),
        }
    }

    /// Returns the current count, or 0 if the program has not counted yet.
    pub fn count(&self) -> u64 {
        let text = fs::read_to_string(self.counted()).ok();
        text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }

    /// Removes the count of a program that has ended.
    pub fn forget_count(&self) {
        let _ = fs::remove_file(self.counted());
    }

    /// Waits until the count increases, and returns the new count.
    #[track_caller]
    pub fn counts(&self) -> u64 {
        let before = self.count();
        wait::until("it to count", || Some(self.count()).filter(|now| *now > before))
    }
}

/// Asserts that the saved container has neither a record nor processes.
#[track_caller]
fn assert_gone(saved: &Saved<'_>) {
    saved.c.assert_gone("a checkpoint");
}

fn goes_on_where_it_was(bed: &Bed) {
    let saved = Saved::counting(bed);
    saved.checkpoint(&[]).ok();
    assert_gone(&saved);
    let mode = fs::metadata(&saved.images).expect("images").permissions().mode();
    assert_eq!(mode & 0o7777, 0o700, "{mode:o}");
    for image in fs::read_dir(&saved.images).expect("read images").flatten() {
        let mode = image.metadata().expect("stat").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{image:?}: {mode:o}");
    }
    let then = saved.count();
    std::thread::sleep(Duration::from_millis(60));
    assert_eq!(saved.count(), then, "still counting");

    let file = bed.dir.join("pid");
    saved.restore(&["--pid-file", file.to_str().expect("path")]).ok();
    assert_eq!(saved.c.status(), "running");
    let pid = fs::read_to_string(file).expect("pid file");
    assert_eq!(pid, saved.c.pid().to_string());
    let now = saved.counts();
    assert!(now > then && now < then + 500, "{then}, then {now}");
}

fn left_running(bed: &Bed) {
    let saved = Saved::counting(bed);
    let pid = saved.c.pid();
    saved.checkpoint(&["--leave-running"]).ok();
    assert_eq!(saved.c.pid(), pid);
    assert_eq!(saved.c.status(), "running");
    let then = saved.counts();
    // A second checkpoint replaces the first.
    saved.checkpoint(&["--leave-running"]).ok();
    saved.restore(&[]).fails("container with given ID already exists");
    assert_eq!(saved.c.status(), "running");
    saved.c.delete_force().ok();
    saved.restore(&[]).ok();
    assert!(saved.counts() > then);
}

fn again_and_again(bed: &Bed) {
    let saved = Saved::counting(bed);
    let mut counted = saved.count();
    for _ in 0..5 {
        saved.cycle();
        let now = saved.counts();
        assert!(now > counted, "{counted}, then {now}");
        counted = now;
    }
}

fn commands_after_a_restore(bed: &Bed) {
    let saved = Saved::counting(bed);
    let c = &saved.c;
    let before = c.sh("cat /proc/1/mountinfo").ok().stdout;
    saved.cycle();
    assert_eq!(places(&before), places(&c.sh("cat /proc/1/mountinfo").ok().stdout));
    assert_eq!(c.exec(&["hostname"]).ok().stdout, "dayfly-test\n");
    assert!(c.exec(&["ip", "link", "show", "lo"]).ok().stdout.contains("LOOPBACK,UP"));
    assert_eq!(
        c.sh("readlink /proc/1/ns/pid").ok().stdout,
        c.sh("readlink /proc/self/ns/pid").ok().stdout
    );
    c.id_call("pause", &[], &[]).run().ok();
    assert_eq!(c.status(), "paused");
    c.id_call("resume", &[], &[]).run().ok();
    if bed.view.has_v1() {
        c.id_call("update", &["--pids-limit", "50"], &[]).run().ok();
        assert_eq!(c.cgroup_read("pids", "pids.max"), "50");
    }
    let shown = c.id_call("ps", &[], &[]).run().ok().stdout;
    assert!(shown.contains(&c.pid().to_string()), "{shown}");
    let listed = bed.call(&["list", "-q"]).run().ok().stdout;
    assert_eq!(listed.trim(), c.id);
    c.delete().fails("is not stopped");
    c.kill("KILL").ok();
    c.wait_status("stopped");
    saved.checkpoint(&[]).fails("Container cannot be checkpointed in stopped state");
    c.delete().ok();
    c.assert_gone("delete");
}

/// Returns the root, mount point and options of each mount in a mountinfo file, without the numbers that change each
/// time.
pub fn places(mountinfo: &str) -> Vec<String> {
    let mut places: Vec<String> = mountinfo
        .lines()
        .map(|line| line.split(' ').skip(3).take(3).collect::<Vec<_>>().join(" "))
        .collect();
    places.sort_unstable();
    places
}

fn restored_under_another_id(bed: &Bed) {
    let saved = Saved::counting(bed);
    saved.checkpoint(&["--leave-running"]).ok();
    saved.c.delete_force().ok();
    let other = Container { bed, id: bed.id(), bundle: saved.c.bundle.clone() };
    let config = fs::read_to_string(other.bundle.join("config.json")).expect("config.json");
    fs::write(other.bundle.join("config.json"), config.replace(&saved.c.id, &other.id))
        .expect("write");
    let other = Saved::of(other, saved.images.clone());
    other.restore(&[]).ok();
    other.counts();
    assert_eq!(other.c.status(), "running");
    assert!(other.c.cgroup_read("pids", "cgroup.procs").contains(&other.c.pid().to_string()));
}

fn exit_status_of_one_in_the_foreground(bed: &Bed) {
    let script =
        "exec </dev/null >/dev/null 2>&1; while ! test -e /go; do usleep 10000; done; exit 7";
    let saved = Saved::running(bed.bundle().sh(script));
    saved.checkpoint(&[]).ok();
    let running = saved.restore_call(&[]).spawn();
    wait::until_true("it to run", || saved.c.exists() && saved.c.status() == "running");
    fs::write(saved.c.bundle.join("rootfs/go"), "").expect("write");
    running.wait().exits(7);
    saved.c.assert_gone("a restore in the foreground");
}

fn log_is_in_the_work_path(bed: &Bed) {
    let saved = Saved::counting(bed);
    let work = bed.dir.join("work");
    let work_path = work.to_str().expect("path");
    saved.checkpoint(&["--work-path", work_path]).ok();
    saved.restore(&["--work-path", work_path]).ok();
    for name in ["dump.log", "restore.log"] {
        assert!(work.join(name).exists(), "{name}");
        assert!(!saved.images.join(name).exists(), "{name}");
    }
    saved.counts();
}

/// criu would follow a link that the directory's owner has placed.
fn work_path_of_another_user(bed: &Bed) {
    let saved = Saved::counting(bed);
    let (work, victim) = (bed.dir.join("work"), bed.dir.join("victim"));
    fs::create_dir(&work).expect("mkdir");
    fs::write(&victim, "kept").expect("write");
    for name in ["dump.log", "restore.log"] {
        symlink(&victim, work.join(name)).expect("symlink");
    }
    chown(&work, Some(1000), Some(1000)).expect("chown");
    let flags = ["--work-path", work.to_str().expect("path")];
    saved.checkpoint(&flags).ok();
    saved.restore(&flags).ok();
    for name in ["dump.log", "stats-dump", "restore.log", "stats-restore"] {
        let stat = fs::symlink_metadata(work.join(name)).expect(name);
        assert!(stat.is_file() && stat.uid() == 0, "{name}");
        assert!(!saved.images.join(name).exists(), "{name}");
    }
    assert_eq!(fs::read_to_string(&victim).expect("read"), "kept");
    saved.counts();
    // The reason of a failure is found, too.
    saved.c.delete_force().ok();
    fs::remove_dir_all(&saved.images).expect("remove images");
    let saved =
        Saved::of(bed.bundle().sh("while :; do sleep 1; done").make().detached(), saved.images);
    let outcome = saved.checkpoint(&flags).fails("criu failed: type DUMP errno 0: Error (");
    assert!(outcome.stderr.contains(&format!("{}/dump.log)", work.display())), "{outcome}");
}

fn modes_of_cgroups(bed: &Bed) {
    let saved = Saved::counting(bed);
    for mode in ["soft", "full", "strict", "ignore"] {
        saved.checkpoint(&["--manage-cgroups-mode", mode]).ok();
        saved.restore(&["--manage-cgroups-mode", mode]).ok();
        saved.counts();
        let procs = saved.c.cgroup_read("pids", "cgroup.procs");
        assert!(procs.contains(&saved.c.pid().to_string()), "{mode}: {procs}");
    }
    saved
        .checkpoint(&["--manage-cgroups-mode", "rough"])
        .fails("invalid manage-cgroups-mode value");
}

fn a_hundred_at_once(bed: &Bed) {
    // The first start fills the host's cache before the host is examined.
    bed.bundle().args(&["true"]).make().run().ok();
    let host = Host::look();
    let bundles = (0..25).map(|_| bed.bundle().sh(COUNTER).set("/linux/seccomp", json!(null)));
    let all: Vec<Saved<'_>> = bundles.map(Saved::running).collect();
    std::thread::scope(|scope| {
        let cycles = |saved: &Saved<'_>| {
            for _ in 0..4 {
                let before = saved.counts();
                saved.cycle();
                assert!(saved.counts() > before);
            }
        };
        let threads: Vec<_> = all.iter().map(|saved| scope.spawn(move || cycles(saved))).collect();
        for thread in threads {
            // The panic of the scope itself would not contain the failed assertion.
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    for saved in &all {
        saved.c.delete_force().ok();
        saved.c.assert_gone("four cycles");
    }
    wait::until_none("left by a hundred cycles", || host.changes());
}
