//! `spec`: writes a template of a configuration to a bundle.

use rustix::fs::{Mode, OFlags, open, openat};
use rustix::process::{getegid, geteuid};
use sys::Errno;
use sys::stdio::write_all;

use super::*;

const FILE: &str = "config.json";

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let is_cgroup_v2 = cgroup::Hierarchies::detect()?.legacy.is_empty();
    let spec = match invocation.values.flag(&SPEC_ROOTLESS) {
        true => ::spec::rootless_template(is_cgroup_v2, geteuid().as_raw(), getegid().as_raw()),
        false => ::spec::template(is_cgroup_v2),
    };
    let text = spec.to_json()?;

    let bundle = invocation.values.text(&SPEC_BUNDLE).unwrap_or(".");
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = open(bundle, flags, Mode::empty()).context("chdir", bundle)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = match openat(&directory, FILE, flags, Mode::from(0o666)) {
        Err(Errno::EXIST) => return Err(failure!("File {FILE} exists. Remove it first")),
        file => file.context("open", format_args!("{bundle}/{FILE}"))?,
    };
    Ok(write_all(file, text.as_bytes()).context("write", FILE)?)
}
