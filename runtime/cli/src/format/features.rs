//! The output of `features`.

use alloc::string::String;

use crate::failure::Failure;

/// Returns the output of `features`, indented by four blanks per level as in runc.
///
/// # Errors
/// As [`super::json`].
pub fn text() -> Result<String, Failure> {
    let narrow = super::indented_json(&container::features())?;
    let mut text = String::with_capacity(narrow.len() * 2);
    for line in narrow.lines() {
        // The document's strings contain no line breaks, so leading blanks are indentation.
        let content = line.trim_start_matches(' ');
        let indent = (line.len() - content.len()) * 2;
        text.extend(core::iter::repeat_n(' ', indent).chain(content.chars()).chain(['\n']));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn document() {
        let text = text().unwrap();
        assert!(text.starts_with(
            "{\n    \"ociVersionMin\": \"1.0.0\",\n    \"ociVersionMax\": \"1.3.0\","
        ));
        let value: Value = serde_json::from_str(&text).unwrap();
        for (pointer, expected) in [
            ("/linux/capabilities/0", json!("CAP_CHOWN")),
            ("/linux/cgroup/systemd", json!(true)),
            ("/linux/cgroup/systemdUser", json!(true)),
            ("/linux/memoryPolicy/modes/0", json!("MPOL_BIND")),
            ("/linux/mountExtensions/idmap/enabled", json!(true)),
            ("/annotations/org.opencontainers.runc.checkpoint.enabled", json!("true")),
        ] {
            assert_eq!(value.pointer(pointer), Some(&expected), "{pointer}");
        }
        let has = |pointer: &str, name: &str| {
            value.pointer(pointer).unwrap().as_array().unwrap().iter().any(|at| at == name)
        };
        let annotations = ["org.systemd.property.", "run.dayfly.", plan::KEEP_GROUPS];
        let unsafe_ones = "/potentiallyUnsafeConfigAnnotations";
        assert!(annotations.iter().all(|name| has(unsafe_ones, name)), "{text}");
        assert!(["rro", "idmap", "ridmap"].iter().all(|word| has("/mountOptions", word)));
        assert!(has("/hooks", "startContainer") && has("/linux/namespaces", "time"));
        assert!(has("/linux/memoryPolicy/flags", "MPOL_F_STATIC_NODES"));
        assert!(has("/linux/seccomp/actions", "SCMP_ACT_NOTIFY"));
        let flag = "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV";
        assert!(has("/linux/seccomp/knownFlags", flag));
        let is_known = sys::seccomp::flags_known(32 | sys::seccomp::NEW_LISTENER);
        assert_eq!(has("/linux/seccomp/supportedFlags", flag), is_known);
    }
}
