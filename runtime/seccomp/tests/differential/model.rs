//! An evaluator for profiles whose rules overlap.

use crate::interpreter::Data;
use crate::{ARCHS, list};
use dayfly_seccomp::Arch;
use serde_json::Value;
use std::collections::BTreeSet;

/// Evaluates a profile according to the specification, rule by rule. Used for profiles with overlapping rules.
pub fn model(profile: &Value, data: &Data) -> u32 {
    let value = |name: &Value, errno: &Value| {
        let (_, bits) =
            dayfly_seccomp::ACTIONS.iter().find(|(known, _)| name == known).expect("known");
        let errno = errno.as_u64().unwrap_or(1) as u32;
        if name == "SCMP_ACT_ERRNO" { bits | errno } else { *bits }
    };
    let default = value(&profile["defaultAction"], &profile["defaultErrnoRet"]);
    let covers = |arch: Arch| {
        arch == Arch::NATIVE || list(&profile["architectures"]).any(|name| name == arch.name())
    };
    let x32 = data.nr >= 0x4000_0000 && data.nr != u32::MAX;
    let arch = ARCHS.iter().map(|(arch, _)| *arch).find(|arch| {
        let is_x32 = *arch == Arch::X32;
        let shared = arch.token() == Arch::X32.token();
        covers(*arch) && arch.token() == data.arch && (!shared || is_x32 == x32)
    });
    let Some(arch) = arch else { return 0 };
    let narrow = matches!(arch, Arch::X86 | Arch::X32 | Arch::Arm);
    let cut = |value: u64| if narrow { value & 0xffff_ffff } else { value };
    let holds = |arg: &Value| {
        let actual = cut(data.args[arg["index"].as_u64().unwrap() as usize]);
        let number = |key: &str| cut(arg[key].as_u64().unwrap_or(0));
        let wanted = number("value");
        match arg["op"].as_str().unwrap() {
            "SCMP_CMP_NE" => actual != wanted,
            "SCMP_CMP_LT" => actual < wanted,
            "SCMP_CMP_LE" => actual <= wanted,
            "SCMP_CMP_EQ" => actual == wanted,
            "SCMP_CMP_GE" => actual >= wanted,
            "SCMP_CMP_GT" => actual > wanted,
            _ => actual & wanted == number("valueTwo") & wanted,
        }
    };
    for rule in list(&profile["syscalls"]) {
        let named = list(&rule["names"])
            .any(|name| dayfly_seccomp::number(name.as_str().unwrap(), arch) == Some(data.nr));
        let indices: BTreeSet<_> = list(&rule["args"]).map(|arg| arg["index"].as_u64()).collect();
        let split = indices.len() < list(&rule["args"]).count();
        let matches = match split {
            true => list(&rule["args"]).any(holds),
            false => list(&rule["args"]).all(holds),
        };
        if named && matches {
            return value(&rule["action"], &rule["errnoRet"]);
        }
    }
    default
}
