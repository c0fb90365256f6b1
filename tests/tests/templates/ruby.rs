//! Templates whose program is written in Ruby.

use super::{create, in_the_cgroup_of_init, other, same_by, template, with_host_files};
use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Outcome;
use serde_json::{Value, json};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(as_if_executed).needs(lacking).unlike_runc(),
    case!(under_a_filter).needs(lacking).unlike_runc(),
    case!(forked_into_the_cgroup).needs(lacking).unlike_runc(),
    case!(statuses).needs(lacking).unlike_runc(),
    case!(another_program).needs(lacking).unlike_runc(),
    case!(several_threads).needs(lacking).unlike_runc(),
];

/// The library under test.
const LIBRARY: &str = include_str!("../../../lib/template/dayfly_template.rb");

/// A program that warms up, and then executes its first argument as Ruby.
pub(super) const PROGRAM: &str = "\
require 'json'
require 'securerandom'
warm = 'warm'
require '/dayfly_template'
DayflyTemplate.wait
eval(ARGV[0], binding)
";

/// Prints everything in which a forked program could differ from an executed one. The interpreter's own descriptors
/// have no fixed numbers.
const SELF: &str = "\
$stdout.sync = true
p ARGV[1..], ENV.to_h, Dir.pwd, Process.uid, Process.gid, Process.groups, warm, $0
names = %w[Umask Uid Gid Groups CapInh CapPrm CapEff CapBnd CapAmb NoNewPrivs Seccomp Seccomp_filters SigBlk SigIgn
  SigCgt Cpus_allowed Mems_allowed Threads]
File.foreach('/proc/self/status') { |line| puts line if names.include?(line.split(':')[0]) }
puts File.read('/proc/self/limits'), File.read('/proc/self/oom_score_adj'), Process.getpriority(Process::PRIO_PROCESS, 0)
files = Dir.children('/proc/self/fd').filter_map { |name| File.readlink(\"/proc/self/fd/#{name}\") rescue nil }
p files.reject { |file| file.start_with?('anon_inode:') || file.end_with?('/fd') }.size
p Dir.children('/proc/sys/net').sort, File.readlines('/proc/self/mountinfo').map { |line| line.split[4] }
p File.read('/proc/self/cgroup').scan('/../').size, Process.getsid == Process.getpgrp, Process.pid == $$
p Thread.new { sleep(0.01); 5 }.value, IO.popen(['echo', 'child']).read, Time.at(0).zone
";

pub(super) fn lacking() -> Result<(), String> {
    super::lacking_for("ruby")
}

pub(super) fn bundle<'a>(bed: &'a Bed, program: &str) -> Bundle<'a> {
    let files = [("app.rb", program), ("dayfly_template.rb", LIBRARY)];
    with_host_files(bed, files).args(&["/usr/bin/ruby", "/app.rb"])
}

/// Runs Ruby code in a container forked by a template. Fails if the code was executed instead.
#[track_caller]
fn fork(template: &Container<'_>, code: &str) -> Outcome {
    let outcome = super::fork(template, code);
    assert!(!outcome.log().contains("executed instead"), "{outcome}");
    outcome
}

#[track_caller]
fn same(template: &Container<'_>, change: impl FnOnce(&mut Value) + Copy) {
    same_by(&["/usr/bin/ruby", "/app.rb", SELF], template, change);
}

fn as_if_executed(bed: &Bed) {
    let template = template(bundle(bed, PROGRAM));
    fork(&template, "abort unless warm && Process.ppid == 0").ok();
    same(&template, |_| {});
    same(&template, |config| {
        config["process"]["cwd"] = json!("/tmp");
        config["process"]["user"] =
            json!({ "uid": 1000, "gid": 1000, "umask": 0o077, "additionalGids": [2000] });
        let kill = json!(["CAP_KILL", "CAP_NET_RAW"]);
        config["process"]["capabilities"] = json!({ "bounding": kill, "effective": ["CAP_KILL"],
            "permitted": kill, "inheritable": kill, "ambient": ["CAP_NET_RAW"] });
        config["process"]["oomScoreAdj"] = json!(500);
        config["process"]["env"].as_array_mut().expect("env").push(json!("ONE=with = and ü"));
    });
    // Each child has random numbers of its own.
    let random = "puts rand, SecureRandom.hex";
    assert_ne!(fork(&template, random).ok().stdout, fork(&template, random).ok().stdout);
}

/// The filter forbids what the library needs before it, and what it does not need after it.
fn under_a_filter(bed: &Bed) {
    let template = template(bundle(bed, PROGRAM));
    for no_new_privileges in [true, false] {
        same(&template, |config| {
            config["process"]["noNewPrivileges"] = json!(no_new_privileges);
            config["linux"]["seccomp"] = json!({ "defaultAction": "SCMP_ACT_ALLOW",
                "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"],
                "syscalls": [{ "names": ["setns", "unshare", "mount", "setresuid", "chdir"],
                    "action": "SCMP_ACT_ERRNO", "errnoRet": 38 }] });
        });
    }
}

/// A program forked into its cgroup never waits for the kernel's lock of moves.
fn forked_into_the_cgroup(bed: &Bed) {
    let template = template(bundle(bed, PROGRAM));
    let show =
        "puts File.read('/proc/1/cgroup') == File.read('/proc/self/cgroup'); $stdout.flush; sleep";
    in_the_cgroup_of_init(&template, &["/usr/bin/ruby", "/app.rb", show], "true", None);
}

fn statuses(bed: &Bed) {
    let template = template(bundle(bed, PROGRAM));
    fork(&template, "exit 7").exits(7);
    fork(&template, "Process.kill(:KILL, Process.pid); sleep").exits(137);
    fork(&template, "Process.kill(:TERM, Process.pid); sleep").exits(143);
    let error = fork(&template, "raise ArgumentError, 'no'").exits(1);
    assert!(error.raw_stderr().contains("no (ArgumentError)"), "{error}");
}

/// The library refuses: only its own program is warm.
fn another_program(bed: &Bed) {
    let template = template(bundle(bed, PROGRAM));
    let c = other(&template, |config| {
        config["process"]["args"] = json!(["/usr/bin/ruby", "-e", "puts Process.pid"]);
    });
    let outcome = c.run_with(&["--template", &template.id]).ok();
    assert_eq!(outcome.stdout, "1\n", "{outcome}");
    assert!(outcome.log().contains("refused: the program is /usr/bin/ruby -e"), "{outcome}");
}

fn several_threads(bed: &Bed) {
    let threads = "Thread.new { sleep }\nrequire '/dayfly_template'\nDayflyTemplate.wait";
    create(&bundle(bed, threads).make(), &[]).fails("ended before it waited for requests");
}
