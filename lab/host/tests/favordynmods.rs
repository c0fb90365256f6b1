//! Turning favordynmods on at each boot, tested in directories that stand for hosts.

#[path = "../../../lib/topology/tests/common/mod.rs"]
mod common;

use common::Sysroot;
use dayfly_host::dynmods::{off, on, persist, unpersist};
use dayfly_host::facts::Facts;
use std::fs;

const UNIT: &str = "etc/systemd/system/dayfly-favordynmods.service";
const LINK: &str = "etc/systemd/system/sysinit.target.wants/dayfly-favordynmods.service";

fn host(release: &str, kind: &str) -> Sysroot {
    let sysroot = Sysroot::empty();
    let mount = format!("30 1 0:26 / /sys/fs/cgroup{kind} rw");
    sysroot
        .put("proc/sys/kernel/osrelease", release)
        .put("proc/self/mountinfo", &mount)
        .put("etc/systemd/system/other.service", "");
    sysroot
}

const V2: &str = " rw - cgroup2 cgroup2";
const V1: &str = "/memory rw - cgroup cgroup";

fn facts(sysroot: &Sysroot) -> Facts {
    Facts::of(Some(&sysroot.path)).expect("facts")
}

#[test]
fn a_unit_comes_and_goes() {
    let sysroot = host("6.12.0", V2);
    persist(&facts(&sysroot), false).unwrap();
    let unit = fs::read_to_string(sysroot.path.join(UNIT)).unwrap();
    assert!(unit.contains("ExecStart=mount -o remount,favordynmods /sys/fs/cgroup\n"));
    assert_eq!(
        fs::read_link(sysroot.path.join(LINK)).unwrap().to_str(),
        Some("../dayfly-favordynmods.service")
    );
    // Calling it again changes nothing.
    persist(&facts(&sysroot), false).unwrap();
    unpersist(&facts(&sysroot)).unwrap();
    assert!(!sysroot.path.join(UNIT).exists() && fs::read_link(sysroot.path.join(LINK)).is_err());
    assert!(sysroot.path.join("etc/systemd/system/other.service").exists());
    unpersist(&facts(&sysroot)).unwrap();
}

#[test]
fn what_cannot_be_taken_back_needs_leave() {
    let sysroot = host("6.18.1", V2);
    for refused in [persist(&facts(&sysroot), false), on(&facts(&sysroot), false)] {
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("stays in effect until the next boot"), "{refused}");
        assert!(refused.contains("--yes"), "{refused}");
    }
    assert!(!sysroot.path.join(UNIT).exists());
    persist(&facts(&sysroot), true).unwrap();
    assert!(sysroot.path.join(UNIT).exists());
}

/// v1 hierarchies can't be remounted with the option, but a new one can be mounted with it.
#[test]
fn v1_gets_a_hierarchy_of_its_own() {
    let sysroot = host("6.1.0", V1);
    persist(&facts(&sysroot), false).unwrap();
    let unit = fs::read_to_string(sysroot.path.join(UNIT)).unwrap();
    let command = "ExecStart=mount -t cgroup -o none,name=dayfly-favordynmods,favordynmods,X-mount.mkdir cgroup \
                   /run/dayfly-favordynmods.cgroup\n";
    assert!(unit.contains(command), "{unit}");
    let refused = on(&facts(&sysroot), false).unwrap_err().to_string();
    assert!(refused.contains("only this host can be switched"), "{refused}");
    // Off as it is, there is nothing to do.
    off(&facts(&sysroot)).unwrap();
    let one_way = host("6.18.1", V1);
    let refused = on(&facts(&one_way), false).unwrap_err().to_string();
    assert!(refused.contains("stays in effect until the next boot"), "{refused}");
}

#[test]
fn without_systemd_there_is_fstab() {
    let sysroot = host("6.12.0", V2);
    fs::remove_dir_all(sysroot.path.join("etc/systemd")).unwrap();
    let refused = persist(&facts(&sysroot), false).unwrap_err().to_string();
    assert!(refused.contains("/etc/fstab: cgroup2 /sys/fs/cgroup cgroup2"), "{refused}");
}

#[test]
fn another_host_is_not_remounted_and_an_old_kernel_refused() {
    let sysroot = host("6.12.0", V2);
    let refused = on(&facts(&sysroot), false).unwrap_err().to_string();
    assert!(refused.contains("only this host can be switched"), "{refused}");
    let old = host("5.10.0", V2);
    let refused = on(&facts(&old), false).unwrap_err().to_string();
    assert!(refused.contains("this kernel does not have it"), "{refused}");
}

#[test]
fn what_boot_or_build_turned_on_stays_on() {
    let sysroot = host("6.12.0", " rw - cgroup2 cgroup2");
    let mount = "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,favordynmods";
    sysroot.put("proc/self/mountinfo", mount).put("proc/cmdline", "cgroup_favordynmods=1");
    let refused = off(&facts(&sysroot)).unwrap_err().to_string();
    assert!(refused.contains("the boot parameter cgroup_favordynmods has it on"), "{refused}");
    on(&facts(&sysroot), false).unwrap();
}
