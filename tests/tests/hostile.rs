//! Known attacks on container runtimes. Each attack runs twice: on the runtime under test, where it must fail, and on a
//! build without the defence in question (`sys::defence`), where it must succeed, because a test that cannot fail
//! proves nothing.
//!
//! | CVE | attack | defences without which it succeeds |
//! |---|---|---|
//! | 2019-5736 (runc, crun, youki, lxc) | `runtime_is_overwritten` | `seal` |
//! | 2019-16884 (runc, crun) | `volume_over_proc` | `proc-covers` and `verify-proc`: two layers |
//! | | `volume_over_a_link_into_proc` | `proc-covers` |
//! | 2019-18837 (crun) | `image_link_leads_outside` | `resolve-in-root` |
//! | 2019-19921, 2023-27561, 2023-28642 (runc) | `linked_proc_is_exchanged` | `ordinary-proc` |
//! | 2021-30465 (runc) | `mount_target_is_exchanged` | `resolve-in-root` |
//! | 2021-43784 (runc) | `overlong_netlink_attribute` | `lengths` |
//! | 2022-29162 (runc), 2022-27650 (crun) | `exec_inherits_capabilities` | `inheritable` |
//! | 2023-25809 (runc, rootless) | `cgroup_of_the_host_is_writable` | `cgroup-read-only` |
//! | 2024-21626 (runc, youki) | `cwd_of_the_host` | `cwd-check` and `resolve-in-root`: two layers |
//! | | `exec_cwd_of_the_host` | `cwd-check` and `bare-birth`: two layers |
//! | | `inherited_directory` | `close-range` |
//! | 2024-45310 (runc) | `file_target_dangles`, `parent_is_exchanged` | `resolve-in-root` |
//! | | `directory_target_dangles`, `device_dangles`, `dangling_link_is_exchanged`, `bind_source_leads_outside` | `resolve-in-root` |
//! | 2025-24965 (crun with krun) | `krun_config_dangles` | `resolve-in-root` |
//! | 2025-31133 (runc, youki) | `null_is_a_kernel_file` | `verify-device` and `own-null`: two layers |
//! | 2025-52565 (runc) | `terminal_is_a_kernel_file` | `pty-peer` |
//! | 2025-52881 (runc, crun, youki) | `sysctl_is_redirected` | `verify-proc` |
//! | 2025-54867, 2025-62161, 2025-62596 (youki) | `linked_sys`, and the three above | `ordinary-proc` |
//! | 2026-30892 (crun) | `exec_as_a_number_and_more` | `strict-integers` |
//! | 2026-41579 (runc), 2026-47766 (crun) | `dev_leads_outside` | `resolve-in-root` |
//! | 2026-88264 (crun) | `console_leads_outside` | `after-pivot` and `resolve-in-root`: two layers |
//! | 2026-88265 (crun) | `null_leads_outside` | `after-pivot`, `resolve-in-root`, `verify-device` and `own-null`: four layers |
//! | (none yet) | `newborn_of_exec`, `newborn_of_a_pod` | `bare-birth` |
//! | (none yet) | `id_climbs_out` | `id-check` |
//! | (none yet) | `lent`: `mask_of_a_file` | `lent-read-only` |
//! | | `standard_streams`, `standard_streams_of_exec`, `standard_streams_without_a_null` | `own-null` |
//! | | `devices_of_a_user_namespace` | `own-nodes` and `lent-read-only`: two layers |
//! | | `devices_of_a_user` | `lent-read-only` |
//! | | `runtime` | `seal` |
//! | | `cgroup_directory` | `cgroup-read-only` |
//! | | `blank` | `blank-owner` |
//! | (none yet) | `fresh_proc_without_masks`, `fresh_sysfs_without_masks` | `old-tree` |
//! | (containerd's own shim) | `streams_of_the_host` | the shim's own pipes, a defence that can't be disabled |
//! | (crun 1.28 and 1.29 hardened) | `exec_cgroup_climbs_out` | `cgroup-path` |
//!
//! If the table names several layers, the attack fails as long as one of them is present.
//!
//! Some runtimes are vulnerable: with runc 1.1.5, `dev_leads_outside`, `parent_is_exchanged` and
//! `exec_as_a_number_and_more` succeed. The last of these succeeds with runc 1.5.1 as well, because runc takes the user
//! 4294967296 for root.
//!
//! The attacks' targets belong to the case: files in its directory, the host name of its container's UTS namespace, a
//! virtual device.

#[path = "hostile/command_line.rs"]
pub mod command_line;
#[path = "hostile/descriptors.rs"]
pub mod descriptors;
#[path = "hostile/lent.rs"]
pub mod lent;
#[path = "hostile/links.rs"]
pub mod links;
#[path = "hostile/mounts.rs"]
pub mod mounts;
#[path = "hostile/pause.rs"]
mod pause;
#[path = "hostile/procfs.rs"]
pub mod procfs;
#[path = "hostile/races.rs"]
pub mod races;
#[path = "hostile/removal.rs"]
pub mod removal;
#[path = "hostile/streams.rs"]
pub mod streams;

use dayfly_tests::bed::Bed;

/// The proof that an attack has succeeded.
type Evidence = Option<String>;

/// The ways of starting: with every fast path, and without the blank namespace, so that init first sees the host's
/// mounts.
const WAYS: [&str; 2] = ["", "blank-namespace"];

/// Asserts that the attack fails.
#[track_caller]
fn holds(bed: &Bed, attack: fn(&Bed) -> Evidence) {
    if let Some(evidence) = attack(bed) {
        panic!("the attack succeeded: {evidence}");
    }
}

/// Asserts that the attack succeeds on a build without the defence.
#[track_caller]
fn falls(bed: &Bed, name: &str, attack: fn(&Bed) -> Evidence) {
    match attack(bed) {
        Some(evidence) => println!("     without {name}: {}", evidence.trim_end()),
        None => panic!("this test can't fail: the attack does not succeed without the defence"),
    }
}

/// The cases of attacks: each runs on the runtime under test, then on the build without the defence. Both cases of a
/// `paused` attack need the build in which defences can be switched off, because ordinary builds can't be stopped
/// halfway. An attack that succeeds on runc 1.5.1 is `unlike_runc`. Requirements (`needs`) apply to both cases, and are
/// the last element of a line.
macro_rules! attacks {
    ($($attack:ident without $names:literal $($property:ident)* $((needs $need:path))?,)*) => {
        &[$(
            {
                let case = dayfly_tests::runner::Case::new(
                    stringify!($attack),
                    |bed| crate::hostile::holds(bed, $attack),
                );
                $(let case = crate::hostile::$property(case);)*
                $(let case = case.needs($need);)?
                case
            },
            dayfly_tests::runner::Case::new(
                concat!(stringify!($attack), " without ", $names),
                |bed| crate::hostile::falls(bed, $names, $attack),
            )
            .undefended($names)
            $(.needs($need))?,
        )*]
    };
}
use attacks;

const fn paused(case: dayfly_tests::runner::Case) -> dayfly_tests::runner::Case {
    case.undefended("")
}

/// Limits a case to starts from the blank namespace: without it, the root filesystem is mounted on the host's root, or
/// on the kernel's initial root.
const fn with_blank(case: dayfly_tests::runner::Case) -> dayfly_tests::runner::Case {
    case.when(dayfly_tests::runtime::uses_every_fast_path)
}

const fn unlike_runc(case: dayfly_tests::runner::Case) -> dayfly_tests::runner::Case {
    case.unlike_runc()
}
