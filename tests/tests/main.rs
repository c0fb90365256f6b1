//! The integration suite: one module a subject, real containers in each.

mod attributes;
mod binds;
mod birth;
mod cgroups;
mod cgroups_v1;
mod cgroups_v2;
mod cgtool;
mod cgtool_cpus;
mod cgtool_parity;
mod cgtool_plans;
mod clocks;
mod confinement;
mod crash;
mod devices;
mod errors;
mod exec;
mod faults;
mod hooks;
mod host;
mod hostile;
mod idmap;
mod images;
mod intel_rdt;
mod lifecycle;
mod listener;
mod logs;
mod masks;
mod mounts;
mod namespaces;
mod net_devices;
mod notify;
mod output;
mod parallel;
mod placement;
mod plan;
mod process;
mod refused;
mod rootfs;
mod rootless;
mod run;
mod seccomp;
mod security;
mod systemd;
mod systemd_user;
mod template;
mod terminal;
mod traces;
mod userns;
mod weight;

use dayfly_tests::runner::{self, Subject};
use std::process::ExitCode;

const SUBJECTS: &[Subject] = &[
    ("lifecycle", lifecycle::CASES),
    ("run", run::CASES),
    ("exec", exec::CASES),
    ("exec", exec::cgroup::CASES),
    ("terminal", terminal::CASES),
    ("binds", binds::CASES),
    ("idmap", idmap::CASES),
    ("mounts", mounts::CASES),
    ("masks", masks::CASES),
    ("devices", devices::CASES),
    ("namespaces", namespaces::CASES),
    ("userns", userns::CASES),
    ("rootless", rootless::CASES),
    ("net_devices", net_devices::CASES),
    ("intel_rdt", intel_rdt::CASES),
    ("process", process::CASES),
    ("attributes", attributes::CASES),
    ("clocks", clocks::CASES),
    ("confinement", confinement::CASES),
    ("refused", refused::CASES),
    ("rootfs", rootfs::CASES),
    ("seccomp", seccomp::CASES),
    ("listener", listener::CASES),
    ("notify", notify::CASES),
    ("hooks", hooks::CASES),
    ("cgroups", cgroups::CASES),
    ("cgroups_v1", cgroups_v1::CASES),
    ("cgroups_v2", cgroups_v2::CASES),
    ("errors", errors::CASES),
    ("errors", errors::state::CASES),
    ("cgtool", cgtool::CASES),
    ("cgtool_plans", cgtool_plans::CASES),
    ("cgtool_cpus", cgtool_cpus::CASES),
    ("cgtool_parity", cgtool_parity::CASES),
    ("output", output::CASES),
    ("logs", logs::CASES),
    ("placement", placement::CASES),
    ("plan", plan::CASES),
    ("traces", traces::CASES),
    ("crash", crash::CASES),
    ("faults", faults::CASES),
    ("template", template::CASES),
    ("birth", birth::CASES),
    ("parallel", parallel::CASES),
    ("security", security::CASES),
    ("hostile", hostile::links::CASES),
    ("hostile", hostile::races::CASES),
    ("hostile", hostile::procfs::CASES),
    ("hostile", hostile::descriptors::CASES),
    ("hostile", hostile::command_line::CASES),
    ("images", images::CASES),
    ("images", images::containers::CASES),
    ("images", images::hostile::CASES),
    ("systemd", systemd::CASES),
    ("systemd_user", systemd_user::CASES),
    ("host", host::CASES),
    ("weight", weight::CASES),
];

fn main() -> ExitCode {
    runner::main(SUBJECTS)
}
