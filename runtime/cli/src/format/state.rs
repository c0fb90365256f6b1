//! `state`: a container's state as JSON.

use alloc::string::String;

use container::State;

use crate::failure::Failure;

/// Returns the output of `state` as in runc: indented by two blanks per level, without a trailing newline, and without
/// the owner.
pub fn state(state: State) -> Result<String, Failure> {
    super::indented_json(&State { owner: String::new(), ..state })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use container::Status;

    /// Returns the state of a running container.
    pub(crate) fn example(id: &str) -> State {
        State {
            oci_version: "1.3.0".into(),
            id: id.into(),
            pid: 4242,
            status: Status::Running,
            bundle: "/srv/bundle".into(),
            rootfs: "/srv/bundle/rootfs".into(),
            created: "2026-11-21T07:34:19.123456789Z".into(),
            annotations: [("org.example".into(), "<1>".into())].into(),
            owner: "root".into(),
        }
    }

    #[test]
    fn layout() {
        assert_eq!(
            state(example("c1")).unwrap(),
            r#"{
  "ociVersion": "1.3.0",
  "id": "c1",
  "pid": 4242,
  "status": "running",
  "bundle": "/srv/bundle",
  "rootfs": "/srv/bundle/rootfs",
  "created": "2026-11-21T07:34:19.123456789Z",
  "annotations": {
    "org.example": "<1>"
  },
  "owner": ""
}"#
        );
    }

    #[test]
    fn no_annotations() {
        let bare =
            State { annotations: [].into(), status: Status::Stopped, pid: 0, ..example("x") };
        let text = state(bare).unwrap();
        assert!(!text.contains("annotations"));
        assert!(text.contains("\"pid\": 0,\n  \"status\": \"stopped\""));
    }
}
