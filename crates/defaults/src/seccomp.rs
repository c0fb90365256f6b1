//! The default seccomp profile of the machine's engines, in the form that
//! config.json takes.

use serde_json::{Value, json};
use std::path::Path;

/// Where the packages of Podman and Buildah put the profile (Debian: golang-github-containers-common).
pub const PATH: &str = "/usr/share/containers/seccomp.json";

/// Translates the engines' file to `linux.seccomp` for a container with
/// `capabilities` on x86-64: rules for other architectures and for
/// capabilities it does not have are left out, as Podman does.
///
/// # Errors
/// When the file is not there or not JSON.
pub fn linux(path: &Path, capabilities: &[&str]) -> Result<Value, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("read {}: {error}", path.display()))?;
    let profile: Value = serde_json::from_str(&text)
        .map_err(|error| format!("parse {}: {error}", path.display()))?;
    let mut out = json!({
        "defaultAction": profile["defaultAction"],
        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
    });
    if profile["defaultErrnoRet"].is_u64() {
        out["defaultErrnoRet"] = profile["defaultErrnoRet"].clone();
    }
    let rules = profile["syscalls"].as_array().cloned().unwrap_or_default();
    let kept = rules.iter().filter(|rule| applies(rule, capabilities)).map(|rule| {
        let mut kept = json!({ "names": rule["names"], "action": rule["action"] });
        for key in ["errnoRet", "args"] {
            if !rule[key].is_null() && rule[key] != json!([]) {
                kept[key] = rule[key].clone();
            }
        }
        kept
    });
    out["syscalls"] = Value::Array(kept.collect());
    Ok(out)
}

fn applies(rule: &Value, capabilities: &[&str]) -> bool {
    let has = |list: &Value, wanted: &dyn Fn(&str) -> bool| {
        list.as_array().is_some_and(|list| list.iter().filter_map(Value::as_str).any(wanted))
    };
    let x86 = |arch: &str| matches!(arch, "amd64" | "x86" | "x32");
    let owned = |capability: &str| capabilities.contains(&capability);
    let (includes, excludes) = (&rule["includes"], &rule["excludes"]);
    let empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    (empty(&includes["arches"]) || has(&includes["arches"], &x86))
        && (empty(&includes["caps"]) || has(&includes["caps"], &owned))
        && !has(&excludes["arches"], &x86)
        && !has(&excludes["caps"], &owned)
}
