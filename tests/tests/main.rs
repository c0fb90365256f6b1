//! The integration suite: one module a subject, real containers in each.

mod attributes;
mod bench;
mod binds;
mod birth;
mod builds;
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
mod dangling;
mod devices;
mod errors;
mod exec;
mod faults;
mod filtered;
mod hooks;
mod host;
mod hostile;
mod idmap;
mod images;
mod intel_rdt;
mod labels;
mod learned;
mod lifecycle;
mod limit;
mod listener;
mod logs;
mod masks;
mod mounts;
mod moves;
mod namespaces;
mod net_devices;
mod nofollow;
mod notify;
mod output;
mod owners;
mod parallel;
mod placement;
mod plan;
mod process;
mod program;
mod refused;
mod remounts;
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

/// Those about what is below runtime/.
const RUNTIME: &[Subject] = &[
    ("lifecycle", lifecycle::CASES),
    ("limit", limit::CASES),
    ("run", run::CASES),
    ("exec", exec::CASES),
    ("exec", exec::cgroup::CASES),
    ("terminal", terminal::CASES),
    ("binds", binds::CASES),
    ("idmap", idmap::CASES),
    ("mounts", mounts::CASES),
    ("dangling", dangling::CASES),
    ("nofollow", nofollow::CASES),
    ("moves", moves::CASES),
    ("remounts", remounts::CASES),
    ("masks", masks::CASES),
    ("devices", devices::CASES),
    ("namespaces", namespaces::CASES),
    ("userns", userns::CASES),
    ("owners", owners::CASES),
    ("rootless", rootless::CASES),
    ("net_devices", net_devices::CASES),
    ("intel_rdt", intel_rdt::CASES),
    ("process", process::CASES),
    ("attributes", attributes::CASES),
    ("clocks", clocks::CASES),
    ("confinement", confinement::CASES),
    ("labels::apparmor", labels::apparmor::CASES),
    ("labels::no_policy", labels::selinux::BEFORE),
    ("labels::selinux", labels::selinux::CASES),
    ("labels::selinux", labels::selinux_mounts::CASES),
    ("refused", refused::CASES),
    ("rootfs", rootfs::CASES),
    ("seccomp", seccomp::CASES),
    ("listener", listener::CASES),
    ("notify", notify::CASES),
    ("filtered", filtered::CASES),
    ("hooks", hooks::CASES),
    ("cgroups", cgroups::CASES),
    ("cgroups_v1", cgroups_v1::CASES),
    ("cgroups_v2", cgroups_v2::CASES),
    ("errors", errors::CASES),
    ("errors", errors::caller::CASES),
    ("errors", errors::state::CASES),
    ("output", output::CASES),
    ("builds", builds::CASES),
    ("logs", logs::CASES),
    ("placement", placement::CASES),
    ("plan", plan::CASES),
    ("traces", traces::CASES),
    ("crash", crash::CASES),
    ("faults", faults::layers::CASES),
    ("faults::calls", faults::calls::CASES),
    ("faults::users", faults::users::CASES),
    ("faults::create", faults::create::CASES),
    ("faults::commands", faults::commands::CASES),
    ("faults::labels", faults::labels::CASES),
    ("faults", faults::CASES),
    ("template", template::CASES),
    ("program", program::CASES),
    ("birth", birth::CASES),
    ("parallel", parallel::CASES),
    ("security", security::CASES),
    ("hostile", hostile::links::CASES),
    ("hostile", hostile::races::CASES),
    ("hostile", hostile::procfs::CASES),
    ("hostile", hostile::descriptors::CASES),
    ("hostile", hostile::command_line::CASES),
    ("hostile", hostile::mounts::CASES),
    ("hostile::lent", hostile::lent::CASES),
    ("systemd", systemd::CASES),
    ("systemd_user", systemd_user::CASES),
    ("weight", weight::CASES),
];

/// Those about what is below tools/.
const TOOLS: &[Subject] = &[
    ("bench", bench::CASES),
    ("cgtool", cgtool::CASES),
    ("cgtool_plans", cgtool_plans::CASES),
    ("cgtool_cpus", cgtool_cpus::CASES),
    ("cgtool_parity", cgtool_parity::CASES),
    ("images", images::CASES),
    ("images", images::bombs::CASES),
    ("images", images::containers::CASES),
    ("images", images::crowds::CASES),
    ("images", images::exports::CASES),
    ("images", images::filters::CASES),
    ("images", images::hostile::CASES),
    ("images", images::names::CASES),
    ("images", images::registries::CASES),
    ("images", images::stacks::CASES),
    ("host", host::CASES),
    ("host", host::score::CASES),
    ("learned", learned::CASES),
];

fn main() -> ExitCode {
    runner::main(&[("runtime", RUNTIME), ("tools", TOOLS)])
}
