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
    use serde_json::Value;

    #[test]
    fn document() {
        let text = text().unwrap();
        assert!(text.starts_with(
            "{\n    \"ociVersionMin\": \"1.0.0\",\n    \"ociVersionMax\": \"1.3.0\","
        ));
        let value: Value = serde_json::from_str(&text).unwrap();
        let hooks = [
            "prestart",
            "createRuntime",
            "createContainer",
            "startContainer",
            "poststart",
            "poststop",
        ];
        assert_eq!(value["hooks"], serde_json::json!(hooks));
        let linux = &value["linux"];
        let namespaces = ["cgroup", "ipc", "mount", "network", "pid", "time", "user", "uts"];
        assert_eq!(linux["namespaces"], serde_json::json!(namespaces));
        assert_eq!(linux["capabilities"][0], "CAP_CHOWN");
        assert_eq!(linux["cgroup"]["systemd"], true);
        assert_eq!(linux["cgroup"]["systemdUser"], true);
        assert_eq!(linux["memoryPolicy"]["modes"][0], "MPOL_BIND");
        assert_eq!(linux["memoryPolicy"]["flags"].as_array().unwrap().len(), 3);
        let has = |list: &Value, name: &str| list.as_array().unwrap().iter().any(|at| at == name);
        assert!(has(&linux["seccomp"]["actions"], "SCMP_ACT_NOTIFY"));
        let flag = "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV";
        assert!(has(&linux["seccomp"]["knownFlags"], flag));
        assert_eq!(
            has(&linux["seccomp"]["supportedFlags"], flag),
            sys::seccomp::flags_known(32 | sys::seccomp::NEW_LISTENER)
        );
        assert_eq!(linux["mountExtensions"]["idmap"]["enabled"], true);
        assert_eq!(value["annotations"]["org.opencontainers.runc.checkpoint.enabled"], "true");
        assert_eq!(
            value["potentiallyUnsafeConfigAnnotations"],
            serde_json::json!([
                "org.systemd.property.",
                "run.dayfly.",
                plan::KEEP_GROUPS,
                "org.criu.config"
            ])
        );
        let options = value["mountOptions"].as_array().unwrap();
        assert!(["rro", "idmap", "ridmap"].iter().all(|word| options.iter().any(|o| o == word)));
    }
}
