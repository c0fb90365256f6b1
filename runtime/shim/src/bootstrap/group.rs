//! Groups of containers that share a shim: the containers of one pod, or those with the same value of the group
//! annotation.

use alloc::format;
use alloc::string::{String, ToString};

use rustix::fs::CWD;
use rustix::io::Errno;
use serde::Deserialize;

use super::Failure;

/// The annotations that specify a group. The first of them that is present determines the group (as in
/// containerd-shim-runc-v2).
const ANNOTATIONS: [&str; 2] = ["io.containerd.runc.v2.group", "io.kubernetes.cri.sandbox-id"];

/// Returns the group of the container `id` according to the configuration in `bundle`. If the configuration specifies
/// no group, returns `id`.
///
/// # Errors
/// If the configuration cannot be read.
pub fn of(bundle: &str, id: &str) -> Result<String, Failure> {
    let path = format!("{bundle}/config.json");
    match sys::fs::read_at(CWD, path.as_str()) {
        Ok(mut bytes) => {
            let group = in_configuration(&bytes, id);
            // The configuration may contain secrets. They are erased, because the daemon, which does not need them,
            // would otherwise keep them in its memory.
            bytes.fill(0);
            core::hint::black_box(&mut bytes);
            group.map_err(|error| format!("{path}: {error}").into())
        }
        // For a sandbox that the shim itself implements, there is no config.json.
        Err(Errno::NOENT) => Ok(id.to_string()),
        Err(errno) => Err(sys::Error::new("read", path, errno).into()),
    }
}

/// Returns the group that the annotations of a container specify, if they specify one.
pub fn among<'a>(annotation: impl Fn(&str) -> Option<&'a String>) -> Option<&'a String> {
    ANNOTATIONS.iter().find_map(|name| annotation(name))
}

fn in_configuration(bytes: &[u8], id: &str) -> Result<String, serde_json::Error> {
    let configuration: Configuration = serde_json::from_slice(bytes)?;
    let group = configuration.annotations.and_then(|all| all.group.or(all.sandbox));
    Ok(group.unwrap_or_else(|| id.to_string()))
}

/// The needed part of config.json.
#[derive(Deserialize)]
struct Configuration {
    annotations: Option<Annotations>,
}

/// The values of [`ANNOTATIONS`].
#[derive(Deserialize)]
struct Annotations {
    #[serde(rename = "io.containerd.runc.v2.group")]
    group: Option<String>,
    #[serde(rename = "io.kubernetes.cri.sandbox-id")]
    sandbox: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_annotation() {
        let group = |text: &str| in_configuration(text.as_bytes(), "me").unwrap();
        let pod = r#""io.kubernetes.cri.sandbox-id":"pod""#;
        assert_eq!(group("{}"), "me");
        assert_eq!(group(r#"{"annotations":null,"process":{"args":["a"]}}"#), "me");
        assert_eq!(group(r#"{"annotations":{"x":"y"}}"#), "me");
        assert_eq!(group(&format!(r#"{{"root":{{}},"annotations":{{"x":"y",{pod}}}}}"#)), "pod");
        let both = format!(r#"{{"annotations":{{{pod},"io.containerd.runc.v2.group":"g\n"}}}}"#);
        assert_eq!(group(&both), "g\n");
        assert!(in_configuration(b"{\"annotations\":{\"x\":", "me").is_err());
    }

    #[test]
    fn without_a_configuration() {
        assert_eq!(of("/nonexistent", "me").unwrap(), "me");
        assert!(of("/proc/self/mem", "me").is_err());
    }
}
