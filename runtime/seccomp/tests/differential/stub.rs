//! The code that runc puts before libseccomp's filter (its libcontainer/seccomp/patchbpf). It returns ENOSYS for calls
//! that are newer than all calls in the profile (runc #2151).

use std::collections::BTreeMap;

use dayfly_seccomp::Arch;
use libseccomp::ScmpSyscall;
use serde_json::Value;

use crate::interpreter::Data;
use crate::{covered, list};

const X32_BIT: u32 = 0x4000_0000;
/// SECCOMP_RET_ERRNO | ENOSYS
const NO_SUCH_CALL: u32 = 0x0005_0026;

/// The highest number that the profile names, for each architecture that the profile covers.
pub struct Stub(BTreeMap<Arch, u32>);

impl Stub {
    /// Finds the highest numbers in libseccomp's tables. If the default action allows calls or passes them to a tracer,
    /// runc's code does nothing, so no numbers are needed.
    pub fn new(profile: &Value) -> Self {
        let mut last = BTreeMap::new();
        let lenient = ["SCMP_ACT_ALLOW", "SCMP_ACT_LOG", "SCMP_ACT_TRACE"];
        if lenient.contains(&profile["defaultAction"].as_str().unwrap()) {
            return Self(last);
        }
        for (arch, theirs) in covered(profile) {
            for name in list(&profile["syscalls"]).flat_map(|rule| list(&rule["names"])) {
                let name = name.as_str().unwrap();
                let Ok(number) = ScmpSyscall::from_name_by_arch(name, theirs) else { continue };
                // A pseudo number means a multiplexed call of x86. Most of these calls also have their own number,
                // which is higher than the multiplexer's.
                let number = match i32::from(number) {
                    number @ 0.. => number as u32,
                    -199..=-100 if arch == Arch::X86 => own(name, 102),
                    -299..=-200 if arch == Arch::X86 => own(name, 117),
                    _ => continue,
                };
                let known = last.entry(arch).or_insert(number);
                *known = number.max(*known);
            }
        }
        Self(last)
    }

    /// Returns the verdict of runc's code; `None` if this code leaves the call to the filter.
    pub fn verdict(&self, data: &Data) -> Option<u32> {
        // Numbers from X32_BIT on belong to x32, even if x32 is not covered. The kernel treats numbers with the highest
        // bit as negative.
        let x32 = data.nr >= X32_BIT && data.arch == Arch::X86_64.token();
        let of_call = |arch: &Arch| arch.token() == data.arch && (*arch == Arch::X32) == x32;
        let (_, last) = self.0.iter().find(|(arch, _)| of_call(arch))?;
        (data.nr > *last).then_some(NO_SUCH_CALL)
    }
}

fn own(name: &str, multiplexer: u32) -> u32 {
    dayfly_seccomp::number(name, Arch::X86).unwrap_or(multiplexer)
}
