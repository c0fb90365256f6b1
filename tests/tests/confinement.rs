//! AppArmor profiles and SELinux labels: applied, or rejected if the kernel lacks the module.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(apparmor_is_missing).needs(no_apparmor).unlike_runc(),
    case!(apparmor_is_missing_for_exec).needs(no_apparmor).unlike_runc(),
    case!(unconfined).unlike_runc(),
    case!(unknown_apparmor_profile).needs(apparmor),
    case!(selinux_is_missing).needs(no_selinux),
    case!(selinux_is_missing_for_exec).needs(no_selinux),
    case!(mount_label_without_selinux).needs(no_selinux).unlike_runc(),
];

fn has_apparmor() -> bool {
    fs::read("/sys/module/apparmor/parameters/enabled").is_ok_and(|text| text.starts_with(b"Y"))
}

fn apparmor() -> Result<(), String> {
    if has_apparmor() { Ok(()) } else { Err("a kernel without AppArmor".to_owned()) }
}

fn no_apparmor() -> Result<(), String> {
    if has_apparmor() { Err("a kernel with AppArmor".to_owned()) } else { Ok(()) }
}

fn no_selinux() -> Result<(), String> {
    let present = Path::new("/sys/fs/selinux/enforce").exists();
    if present { Err("a kernel with SELinux".to_owned()) } else { Ok(()) }
}

const NO_APPARMOR: &str = "apparmor: config provided but apparmor not supported";
const NO_SELINUX: &str =
    "selinux label is specified in config, but selinux is disabled or not supported";
const LABEL: &str = "system_u:system_r:container_t:s0:c1,c2";

fn is_refused(bed: &Bed, pointer: &str, value: Value, text: &str) {
    let c = bed.bundle().set(pointer, value).make();
    c.create().fails(text);
    assert!(!c.exists());
}

fn apparmor_is_missing(bed: &Bed) {
    is_refused(bed, "/process/apparmorProfile", json!("docker-default"), NO_APPARMOR);
}

fn apparmor_is_missing_for_exec(bed: &Bed) {
    let c = bed.bundle().make().detached();
    c.exec_with(&["--apparmor", "docker-default"], &["true"]).fails_as(255, NO_APPARMOR);
    assert_eq!(c.status(), "running");
}

/// Engines set `unconfined` for a privileged container, whatever the kernel supports.
fn unconfined(bed: &Bed) {
    let c = bed.bundle().set("/process/apparmorProfile", json!("unconfined")).make().detached();
    c.exec_with(&["--apparmor", "unconfined"], &["true"]).ok();
}

fn unknown_apparmor_profile(bed: &Bed) {
    let profile = json!("dayfly-no-such-profile");
    is_refused(bed, "/process/apparmorProfile", profile, "apparmor failed to apply profile");
}

fn selinux_is_missing(bed: &Bed) {
    is_refused(bed, "/process/selinuxLabel", json!(LABEL), NO_SELINUX);
}

fn selinux_is_missing_for_exec(bed: &Bed) {
    let c = bed.bundle().make().detached();
    c.exec_with(&["--process-label", LABEL], &["true"]).fails_as(255, NO_SELINUX);
    assert_eq!(c.status(), "running");
}

fn mount_label_without_selinux(bed: &Bed) {
    is_refused(bed, "/linux/mountLabel", json!(LABEL), NO_SELINUX);
}
