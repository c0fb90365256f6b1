//! The seccomp filter of containers from images. dayfly provides it, whatever else is installed.

use super::V2;
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::image::{self, Layer, Layout, Packing};
use dayfly_tests::runner::{Case, runtime_path};
use dayfly_tests::runtime::{Call, Outcome, uses_every_fast_path};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

dayfly_tests::subject!(Tools, CASES);

const CASES: &[Case] = &[
    case!(without_the_engines_file).on(V2).when(uses_every_fast_path).needs(programs),
    case!(verdicts).on(V2).when(uses_every_fast_path).needs(programs),
    case!(an_image_of_an_older_import).on(V2).when(uses_every_fast_path).needs(programs),
    case!(profiles_by_name).on(V2).when(uses_every_fast_path).needs(programs),
];

/// A program that makes system calls and prints their results, and the architecture if it matters.
const PROBE: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static long call(long n, long a, long b, long c) { errno = 0; return syscall(n, a, b, c, 0, 0) < 0 ? errno : 0; }
static long call32(long n, long a, long b) {
    long r;
    __asm__ volatile("int $0x80" : "=a"(r) : "a"(n), "b"(a), "c"(b), "d"(0), "S"(0), "D"(0) : "memory", "r8", "r9", "r10", "r11");
    return r < 0 ? -(int)r : 0;
}

int main(void) {
    char line[256]; FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) if (!strncmp(line, "Seccomp:", 8)) printf("mode %c\n", line[9]);
    printf("keyctl %ld\n", call(SYS_keyctl, 9999, 0, 0));
    printf("add_key %ld\n", call(SYS_add_key, 0, 0, 0));
    printf("request_key %ld\n", call(SYS_request_key, 0, 0, 0));
    printf("bpf %ld\n", call(SYS_bpf, 9999, 0, 0));
    printf("perf_event_open %ld\n", call(SYS_perf_event_open, 0, 0, 0));
    printf("mount %ld\n", call(SYS_mount, 0, 1, 0));
    printf("open_tree %ld\n", call(428, -1, 0, 0));
    printf("fsopen %ld\n", call(430, 0, 0, 0));
    printf("userfaultfd %ld\n", call(SYS_userfaultfd, 0xffff, 0, 0));
    printf("clone_newuser %ld\n", call(SYS_clone, 0x10000000 | 0x200 | 0x10000, 0, 0));
    printf("clone_newns %ld\n", call(SYS_clone, 0x20000 | 0x10000, 0, 0));
    printf("clone %ld\n", call(SYS_clone, 0x10000, 0, 0));
    printf("clone3 %ld\n", call(435, 0, 0, 0));
    printf("unshare %ld\n", call(SYS_unshare, 0xffffffff, 0, 0));
    printf("setns %ld\n", call(SYS_setns, -1, 0, 0));
    printf("open_by_handle_at %ld\n", call(SYS_open_by_handle_at, -1, 0, 0));
    printf("kexec_load %ld\n", call(SYS_kexec_load, 0, 99999, 0));
    printf("io_uring_setup %ld\n", call(425, 0, 0, 0));
    printf("pivot_root %ld\n", call(SYS_pivot_root, 0, 0, 0));
    printf("syslog %ld\n", call(SYS_syslog, 9999, 0, 0));
    printf("settimeofday %ld\n", call(SYS_settimeofday, 1, 0, 0));
    printf("mbind %ld\n", call(SYS_mbind, 1, 0, 9999));
    printf("kcmp %ld\n", call(SYS_kcmp, 0, 0, 9999));
    printf("chroot %ld\n", call(SYS_chroot, 0, 0, 0));
    printf("ptrace %ld\n", call(SYS_ptrace, 16, 0, 0));
    printf("process_vm_readv %ld\n", call(SYS_process_vm_readv, getpid(), 0, 0));
    printf("vsock %ld\n", call(SYS_socket, 40, 99, 0));
    printf("unix %ld\n", call(SYS_socket, 1, 1, 0));
    printf("personality_ask %ld\n", call(SYS_personality, 0xffffffff, 0, 0));
    printf("personality_exec %ld\n", call(SYS_personality, 0x400000, 0, 0));
    printf("newer %ld\n", call(5000, 0, 0, 0));
    printf("x32_keyctl %ld\n", call(0x40000000 | SYS_keyctl, 9999, 0, 0));
    printf("x86_keyctl %ld\n", call32(288, 9999, 0));
    printf("x86_clone_newuser %ld\n", call32(120, 0x10000000 | 0x200 | 0x10000, 0));
    printf("x86_getpid %ld\n", call32(20, 0, 0));
    return 0;
}
"#;

/// The results in engines' containers: EPERM (1), ENOSYS (38), or the kernel's own error for the invalid arguments.
const VERDICTS: &[(&str, i32)] = &[
    ("mode", 2),
    ("keyctl", 1),
    ("add_key", 1),
    ("request_key", 1),
    ("bpf", 1),
    ("perf_event_open", 1),
    ("mount", 1),
    ("open_tree", 1),
    ("fsopen", 1),
    ("userfaultfd", 1),
    ("clone_newuser", 1),
    ("clone_newns", 1),
    ("clone", EINVAL),
    ("clone3", 38),
    ("unshare", 1),
    ("setns", 1),
    ("open_by_handle_at", 1),
    ("kexec_load", 1),
    ("io_uring_setup", 1),
    ("pivot_root", 1),
    ("syslog", 1),
    ("settimeofday", 1),
    ("mbind", 1),
    ("kcmp", 1),
    ("chroot", EFAULT),
    ("ptrace", ESRCH),
    ("process_vm_readv", EINVAL),
    ("vsock", 1),
    ("unix", 0),
    ("personality_ask", 0),
    ("personality_exec", 1),
    ("newer", 38),
    ("x32_keyctl", 1),
    ("x86_keyctl", 1),
    ("x86_clone_newuser", 1),
    ("x86_getpid", 0),
];
const ESRCH: i32 = 3;
const EFAULT: i32 = 14;
const EINVAL: i32 = 22;

fn programs() -> Result<(), String> {
    image::needed()?;
    match (cfg!(target_arch = "x86_64"), Path::new("/usr/bin/gcc").exists()) {
        (true, true) => Ok(()),
        (false, _) => Err("the program that asks is one of x86-64".to_owned()),
        (_, false) => Err("no gcc: apt-get install gcc libc6-dev".to_owned()),
    }
}

/// Makes an image whose only program is the probe.
fn layout(bed: &Bed) -> Layout {
    let (source, program) = (bed.dir.join("probe.c"), bed.dir.join("probe"));
    fs::write(&source, PROBE).expect("write");
    let mut gcc = Command::new("gcc");
    let status = gcc.args(["-static", "-O1", "-o"]).arg(&program).arg(&source).status();
    assert!(status.expect("gcc").success());
    let program = fs::read(&program).expect("program");
    let layout = Layout::new(bed.dir.join("layout"));
    let layer = Layer::new().file("probe", 0o755, &program);
    let image = layout.image(&[(layer, Packing::Zstd)], &json!({ "Cmd": ["/probe"] }));
    layout.index(&[image]);
    layout
}

fn import(bed: &Bed, layout: &Layout, options: &[&str]) -> Outcome {
    let source = layout.dir.to_str().expect("path");
    image::call(bed, &[&["import", source, "--name", "test"], options].concat()).run()
}

fn run(bed: &Bed) -> Call {
    let (id, store) = (bed.id(), image::store(bed));
    bed.call(&["run", "--store", store.to_str().expect("path"), "--name", &id, "--image", "test"])
}

fn said(outcome: &Outcome) -> BTreeMap<String, i32> {
    let words = outcome.stdout.lines().filter_map(|line| line.split_once(' '));
    words.map(|(name, word)| (name.to_owned(), word.parse().expect("number"))).collect()
}

fn config(bed: &Bed) -> PathBuf {
    image::store(bed).join("refs/test:latest/config.json")
}

/// /usr/share/containers is hidden by an empty directory, for the import and for the run.
fn without_the_engines_file(bed: &Bed) {
    let layout = layout(bed);
    let (store, id) = (image::store(bed), bed.id());
    let script = format!(
        "set -e; mkdir -p /usr/share/containers; mount -t tmpfs none /usr/share/containers\n\
         {image} image import {source} --name test >&2\n\
         exec {dayfly} --root {root} run --store $DAYFLY_STORE --name {id} --image test",
        image = image::program().display(),
        source = layout.dir.display(),
        dayfly = runtime_path().display(),
        root = bed.dir.join("root").display(),
    );
    let outcome = bed
        .program("unshare", &["-m", "--propagation", "private", "sh", "-c", &script])
        .env("DAYFLY_STORE", store.to_str().expect("path"))
        .run()
        .ok();
    assert_eq!(said(&outcome).get("mode"), Some(&2), "{outcome}");
    assert!(!outcome.stderr.contains("warning"), "{outcome}");
}

fn verdicts(bed: &Bed) {
    let layout = layout(bed);
    import(bed, &layout, &[]).ok();
    let found = said(&run(bed).run().ok());
    let wrong: Vec<_> =
        VERDICTS.iter().filter(|(name, wanted)| found.get(*name) != Some(wanted)).collect();
    assert!(wrong.is_empty(), "wanted {wrong:?}, found {found:?}");
    // Without the filter, the probe prints other results, so it does detect the filter.
    import(bed, &layout, &["--seccomp", "none"]).ok();
    let open = said(&run(bed).run().ok());
    assert_eq!(open.get("mode"), Some(&0));
    for name in
        ["keyctl", "add_key", "request_key", "io_uring_setup", "clone3", "x86_keyctl", "mbind"]
    {
        assert_ne!(found.get(name), open.get(name), "{name}");
    }
}

/// An image from before profiles existed has no profile, but is not marked as unconfined either.
fn an_image_of_an_older_import(bed: &Bed) {
    let layout = layout(bed);
    import(bed, &layout, &[]).ok();
    let text = fs::read(config(bed)).expect("config");
    let mut old: Value = serde_json::from_slice(&text).expect("json");
    old["linux"].as_object_mut().expect("object").remove("seccomp");
    fs::write(config(bed), old.to_string()).expect("write");
    let outcome = run(bed).run().exits(1);
    assert!(outcome.stderr.contains("import or pull it again"), "{outcome}");
    let again = import(bed, &layout, &[]).ok();
    assert!(again.stdout.contains("0 unpacked"), "{again}");
    assert_eq!(said(&run(bed).run().ok()).get("mode"), Some(&2));
}

fn profiles_by_name(bed: &Bed) {
    let layout = layout(bed);
    let outcome =
        import(bed, &layout, &["--seccomp", "/usr/share/containers/absent.json"]).exits(1);
    assert!(outcome.stderr.contains("absent.json: no such file"), "{outcome}");
    let file = bed.dir.join("profile.json");
    let name = file.to_str().expect("path");
    fs::write(&file, "{}").expect("write");
    let outcome = import(bed, &layout, &["--seccomp", name]).exits(1);
    assert!(outcome.stderr.contains("is not a seccomp profile"), "{outcome}");
    let rules = json!([
        { "names": ["keyctl"], "action": "SCMP_ACT_ERRNO", "errnoRet": 99, "args": [], "excludes": { "caps": ["CAP_SYS_ADMIN"] } },
        { "names": ["add_key"], "action": "SCMP_ACT_ERRNO", "errnoRet": 98, "includes": { "arches": ["s390x"] } },
    ]);
    let profile = json!({ "defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules });
    fs::write(&file, profile.to_string()).expect("write");
    import(bed, &layout, &["--seccomp", name]).ok();
    let found = said(&run(bed).run().ok());
    assert_eq!((found["mode"], found["keyctl"]), (2, 99));
    assert_ne!(found["add_key"], 98);
}
