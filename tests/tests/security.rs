//! Hostile images and processes. Every case checks at its end that the host is unchanged; whether the container has run
//! is less important. Attacks known from CVEs are in `hostile`.

use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::program;
use dayfly_tests::runner::Case;
use dayfly_tests::victim::Victim;
use dayfly_tests::wait;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(dev_is_a_symlink_and_a_tmpfs_goes_there),
    case!(passwd_is_no_ordinary_file),
    case!(mount_target_climbs_out),
    case!(masked_path_is_a_symlink),
    case!(ptmx_is_a_file),
    case!(runtime_is_not_reachable_from_exec),
    case!(runtime_as_the_program),
    case!(script_with_the_runtime_as_interpreter),
    case!(created_init_shows_no_directory),
    case!(device_link_into_the_host),
    case!(cgroups_path_climbs_out),
    case!(huge_config),
    case!(environment_does_not_leak),
    case!(rootfs_entries_of_wrong_type),
    case!(tmp_copy_up_of_a_symlink),
    case!(mount_over_proc_is_refused),
    case!(exec_of_a_replaced_shell),
];

/// Replaces a file or an empty directory of the root filesystem by a link.
pub fn replace_by_link(bundle: &Bundle<'_>, name: &str, target: &Path) {
    let path = bundle.rootfs().join(name);
    let _ = fs::remove_dir(&path);
    let _ = fs::remove_file(&path);
    symlink(target, path).expect("link");
}

/// Removes the mounts at and below `place`.
pub fn without_mounts<'a>(mut bundle: Bundle<'a>, place: &str) -> Bundle<'a> {
    bundle.config["mounts"].as_array_mut().expect("mounts").retain(|mount| {
        !mount["destination"].as_str().is_some_and(|destination| destination.starts_with(place))
    });
    bundle
}

fn dev_is_a_symlink_and_a_tmpfs_goes_there(bed: &Bed) {
    let victim = Victim::new(bed);
    for target in [victim.dir.clone(), victim.climbing()] {
        let bundle = bed.bundle();
        replace_by_link(&bundle, "dev", &target);
        let _ = bundle.args(&["/bin/true"]).make().run();
        victim.assert_untouched();
    }
}

/// Without HOME in the environment, the home directory is looked up in /etc/passwd, which the image or the container
/// has written.
fn passwd_is_no_ordinary_file(bed: &Bed) {
    const LINKS: [&str; 7] = [
        "/dev/zero",
        "/dev/tty",
        "/proc/kmsg",
        "/proc/self/fd/0",
        "/proc/self/mem",
        "/etc/passwd",
        "/nowhere",
    ];
    fn make(passwd: &Path, kind: &str) {
        let _ = fs::remove_dir(passwd);
        let _ = fs::remove_file(passwd);
        let mode = Mode::from_raw_mode(0o666);
        match kind {
            "fifo" => mknodat(CWD, passwd, FileType::Fifo, mode, 0).expect("mkfifo"),
            "zero" => {
                mknodat(CWD, passwd, FileType::CharacterDevice, mode, makedev(1, 5)).expect("mknod")
            }
            "directory" => fs::create_dir(passwd).expect("mkdir"),
            "sparse" => {
                let file = fs::File::create(passwd).expect("create");
                file.set_len(1 << 40).expect("truncate");
            }
            link => symlink(link, passwd).expect("link"),
        }
    }
    let kinds = || ["fifo", "zero", "directory", "sparse"].into_iter().chain(LINKS);
    let bundle = || bed.bundle().set("/process/env", json!(["PATH=/bin"]));
    let running = bundle().make().detached();
    for kind in kinds() {
        let made = bundle();
        make(&made.rootfs().join("etc/passwd"), kind);
        let c = made.sh("echo \"HOME=$HOME\"").make();
        assert_eq!(c.run().ok().stdout, "HOME=/\n", "{kind}");
        let create = c.create().ok();
        c.start().ok();
        create.wait_output("HOME=/\n");
        c.wait_status("stopped");
        c.delete().ok();
        make(&running.bundle.join("rootfs/etc/passwd"), kind);
        assert_eq!(running.sh("echo \"HOME=$HOME\"").ok().stdout, "HOME=/\n", "exec: {kind}");
    }
    running.delete_force().ok();
    running.assert_gone("an exec without a home");
}

fn mount_target_climbs_out(bed: &Bed) {
    let victim = Victim::new(bed);
    let target = format!("/{}/new", victim.climbing().display());
    let _ = bed.bundle().mount("tmpfs", "tmpfs", &target, &[]).args(&["/bin/true"]).make().run();
    victim.assert_untouched();
}

fn masked_path_is_a_symlink(bed: &Bed) {
    let victim = Victim::new(bed);
    let bundle = bed.bundle();
    symlink(victim.climbing(), bundle.rootfs().join("dirlink")).expect("link");
    symlink(victim.climbing().join("file"), bundle.rootfs().join("filelink")).expect("link");
    let _ = bundle
        .set("/linux/maskedPaths", json!(["/dirlink", "/filelink"]))
        .set("/linux/readonlyPaths", json!(["/dirlink", "/filelink"]))
        .args(&["/bin/true"])
        .make()
        .run();
    victim.assert_untouched();
}

fn ptmx_is_a_file(bed: &Bed) {
    let bundle = without_mounts(bed.bundle(), "/dev").mount(
        "devpts",
        "devpts",
        "/dev/pts",
        &["newinstance", "ptmxmode=0666"],
    );
    fs::write(bundle.rootfs().join("dev/ptmx"), "old\n").expect("write");
    let c = bundle.sh("readlink /dev/ptmx").make();
    assert_eq!(c.run().ok().stdout, "pts/ptmx\n");
}

/// Returns a path that exists on the host, but not in containers.
fn host_only(bed: &Bed) -> String {
    bed.dir.to_string_lossy().into_owned()
}

/// Copies the runtime, so that a case may damage it.
pub fn copy_of_runtime(bed: &Bed) -> (PathBuf, Vec<u8>) {
    let copy = bed.dir.join("runtime");
    program::copy(bed.runtime(), &copy);
    let bytes = fs::read(&copy).expect("read runtime");
    (copy, bytes)
}

fn runtime_is_not_reachable_from_exec(bed: &Bed) {
    // CVE-2019-5736: a process of the container opens /proc/PID/exe of the runtime while the runtime is inside, and
    // writes to that file after the runtime has exited.
    let script = "echo ready; while :; do for p in /proc/[0-9]*; do
        case $(readlink $p/exe) in */busybox|'') ;; *) ( exec 9<$p/exe; echo caught; usleep 20000; echo overwritten >/proc/self/fd/9 ) 2>/dev/null ;; esac
        done; done";
    let c = bed.bundle().sh(script).make();
    let run = c.run_with(&["--detach"]).ok();
    run.wait_output("ready");
    let (copy, bytes) = copy_of_runtime(bed);
    for _ in 0..30 {
        let root = bed.root();
        let args = ["--root", root.to_str().expect("path"), "exec", &c.id, "/bin/true"];
        let _ = bed.program(copy.to_str().expect("path"), &args).run();
    }
    // A process that has opened the runtime writes 20 ms later.
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert!(fs::read(&copy).expect("read runtime") == bytes, "the runtime was overwritten");
}

fn runtime_as_the_program(bed: &Bed) {
    // Executing /proc/self/exe runs the runtime itself inside the container, which must not be able to write to the
    // runtime.
    let (copy, bytes) = copy_of_runtime(bed);
    let bundle = bed.bundle();
    symlink("/proc/self/exe", bundle.rootfs().join("bin/tool")).expect("link");
    let c = bundle
        .sh("while :; do for p in /proc/[0-9]*; do echo x >>$p/exe; done; done 2>/dev/null")
        .make()
        .detached();
    for program in ["/proc/self/exe", "/bin/tool", "/proc/self/fd/3", "/proc/1/exe"] {
        let root = bed.root();
        let args = ["--root", root.to_str().expect("path"), "exec", &c.id, program, "--version"];
        let _ = bed.program(copy.to_str().expect("path"), &args).run();
    }
    assert!(fs::read(&copy).expect("read runtime") == bytes, "the runtime was overwritten");
}

fn script_with_the_runtime_as_interpreter(bed: &Bed) {
    let (copy, bytes) = copy_of_runtime(bed);
    let bundle = bed.bundle();
    let script = bundle.rootfs().join("bin/trap");
    program::write(&script, "#!/proc/self/exe\n");
    let c = bundle.make().detached();
    for _ in 0..5 {
        let root = bed.root();
        let args = ["--root", root.to_str().expect("path"), "exec", &c.id, "/bin/trap"];
        let _ = bed.program(copy.to_str().expect("path"), &args).run();
    }
    assert!(fs::read(&copy).expect("read runtime") == bytes, "the runtime was overwritten");
}

fn created_init_shows_no_directory(bed: &Bed) {
    // Between create and start, init's descriptors lead nowhere on the host.
    let c = bed.bundle().make();
    c.create().ok();
    let marker = host_only(bed);
    let script = format!(
        "for f in /proc/1/fd/*; do test -d $f && ls -d $f/..{marker} $f{marker} $f/../..{marker} && echo ESCAPED; done; true"
    );
    let outcome = c.exec(&["sh", "-c", &script]);
    assert!(!outcome.stdout.contains("ESCAPED"), "{outcome}");
}

fn device_link_into_the_host(bed: &Bed) {
    let victim = Victim::new(bed);
    let bundle = without_mounts(bed.bundle(), "/dev");
    for name in ["zero", "full", "stdin", "fd", "core", "ptmx"] {
        symlink(victim.climbing().join("made"), bundle.rootfs().join("dev").join(name))
            .expect("link");
    }
    let device = json!({ "path": "/dev/sub/extra", "type": "c", "major": 1, "minor": 3 });
    symlink(victim.climbing(), bundle.rootfs().join("dev/sub")).expect("link");
    let _ = bundle.set("/linux/devices", json!([device])).args(&["/bin/true"]).make().run();
    victim.assert_untouched();
}

fn cgroups_path_climbs_out(bed: &Bed) {
    let id = bed.id();
    let c = bed
        .bundle()
        .set("/linux/cgroupsPath", json!(format!("/dayfly-test/../../../../dayfly-test/{id}")))
        .make_as(&id);
    let _ = c.run_with(&["--detach"]);
    assert!(!Path::new("/sys/fs/dayfly-test").exists());
    c.delete_force().ok();
}

fn huge_config(bed: &Bed) {
    // Deep nesting and long text neither crash the runtime nor leave anything.
    let c = bed.bundle().make();
    for text in [
        "[".repeat(100_000),
        format!("{{\"a\":{}1{}}}", "[".repeat(50_000), "]".repeat(50_000)),
        "\"".repeat(10_000),
    ] {
        fs::write(c.bundle.join("config.json"), text).expect("write");
        let outcome = c.create();
        assert!(outcome.code() == 1 && !outcome.died_of_signal(), "{outcome}");
    }
}

fn environment_does_not_leak(bed: &Bed) {
    let c = bed.bundle().sh("cat /proc/self/environ; cat /proc/1/environ").make();
    let outcome = c.bundle_call("run", &[]).env("SECRET_OF_THE_HOST", "hunter2").run().ok();
    assert!(!outcome.stdout.contains("hunter2"), "{outcome}");
    let c = bed.bundle().make();
    let _ = c.bundle_call("create", &[]).env("SECRET_OF_THE_HOST", "hunter2").run().ok();
    let outcome = c.exec(&["cat", "/proc/1/environ"]);
    assert!(!outcome.stdout.contains("hunter2"), "{outcome}");
}

fn rootfs_entries_of_wrong_type(bed: &Bed) {
    // The image has files where directories are expected, and vice versa.
    let bundle = bed.bundle();
    fs::remove_dir(bundle.rootfs().join("dev")).expect("remove");
    fs::write(bundle.rootfs().join("dev"), "a file").expect("write");
    assert_ne!(bundle.args(&["/bin/true"]).make().run().code(), 0);
    let bundle = without_mounts(bed.bundle(), "/dev");
    fs::create_dir_all(bundle.rootfs().join("dev/null/x")).expect("make");
    let _ = bundle.args(&["/bin/true"]).make().run();
}

fn tmp_copy_up_of_a_symlink(bed: &Bed) {
    let victim = Victim::new(bed);
    let bundle = bed.bundle();
    symlink(victim.climbing(), bundle.rootfs().join("copied")).expect("link");
    let outcome = bundle
        .mount("tmpfs", "tmpfs", "/copied", &["tmpcopyup"])
        .sh("cat /copied/file; touch /copied/new")
        .make()
        .run();
    assert!(!outcome.stdout.contains("precious"), "{outcome}");
    victim.assert_untouched();
}

fn mount_over_proc_is_refused(bed: &Bed) {
    // CVE-2019-16884: a volume over /proc would make the writes of labels ineffective.
    let dir = bed.dir.join("fake");
    fs::create_dir(&dir).expect("make");
    let c = bed
        .bundle()
        .mount("bind", dir.to_str().expect("path"), "/proc/self", &["bind"])
        .args(&["/bin/true"])
        .make();
    assert_ne!(c.run().code(), 0);
    let c =
        bed.bundle().mount("tmpfs", "tmpfs", "/proc/sys/kernel", &[]).args(&["/bin/true"]).make();
    assert_ne!(c.run().code(), 0);
}

fn exec_of_a_replaced_shell(bed: &Bed) {
    // If the container replaces a program while it runs, exec runs the new program. Apart from the program, the runtime
    // itself reads no file of the rootfs.
    let c = bed.bundle().make().detached();
    fs::write(c.bundle.join("rootfs/etc/passwd"), "x".repeat(1_000_000)).expect("write");
    fs::write(c.bundle.join("rootfs/etc/group"), "\0\0\n:::::\n").expect("write");
    c.exec_with(&["-u", "1000:1000"], &["id", "-u"]).ok();
    let ready = c.bundle.join("rootfs/bin/sh");
    wait::until_true("the shell", || ready.exists());
}
